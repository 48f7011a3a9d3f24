"""Layers: one file and one line in LAYERS each; exact today."""

LAYERS: dict[str, str] = {"exact": "gateway.layers.exact:ExactLayer"}
"""Name in metrics and headers → lazy "module:Class"."""
