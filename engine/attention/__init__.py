"""Attention over the KV pool. A new backend is a file here, or beside, and a line in the table."""

from collections.abc import Mapping
from importlib import import_module

from engine.attention.contract import AttentionBackend
from engine.errors import EngineError

__all__ = ["ATTENTION", "AttentionBackend", "attention_class"]

ATTENTION: Mapping[str, str] = {
    "sdpa": "engine.attention.gathered:GatheredAttention",
    "triton": "engine.attention.triton_attention:TritonAttention",
}
"""Backend name to where its class is. `triton` needs that package, and a GPU outside of tests."""


def attention_class(name: str) -> type[AttentionBackend]:
    """Import the class of a backend.

    Raises:
        EngineError: it is unknown.
    """
    if name not in ATTENTION:
        raise EngineError(f"attention {name!r} is unknown; known: {', '.join(ATTENTION)}")
    module, _, constant = ATTENTION[name].partition(":")
    found: type[AttentionBackend] = getattr(import_module(module), constant)
    return found
