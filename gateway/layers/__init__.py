"""Layers: one file and one line in LAYERS each, in the order in which they are asked."""

LAYERS: dict[str, str] = {
    "exact": "gateway.layers.exact:ExactLayer",
    "semantic": "gateway.layers.semantic:SemanticLayer",
}
"""Name in modes, metrics and headers → lazy "module:Class", built by its `from_parts`.

Contract test: tests/gateway/layers/test_contract.py: none answers across tenants, scopes, versions or purges.
"""
