"""Model families. A new one is a file here and a line in the table."""

from collections.abc import Mapping
from importlib import import_module

from engine.errors import ModelError
from engine.models.family import Family

__all__ = ["MODELS", "Family", "family_named", "family_of"]

MODELS: Mapping[str, str] = {
    "llama": "engine.models.llama:LLAMA",
    "qwen2": "engine.models.qwen2:QWEN2",
    "qwen3": "engine.models.qwen3:QWEN3",
    "gemma3": "engine.models.gemma3:GEMMA3",
}
"""Family name to where what sets it apart is."""


def family_named(name: str) -> Family:
    """Look up a family.

    Raises:
        ModelError: the family is unknown.
    """
    if name not in MODELS:
        raise ModelError(f"architecture {name!r} is not supported; known: {', '.join(MODELS)}")
    module, _, constant = MODELS[name].partition(":")
    found: Family = getattr(import_module(module), constant)
    return found


def family_of(architecture: object) -> str:
    """Return the family of a name that a model file gives, Hugging Face's or GGUF's.

    Raises:
        ModelError: the architecture is unknown.
    """
    known = {name: family_named(name) for name in MODELS}
    for name, family in known.items():
        if architecture == family.gguf or architecture in family.architectures:
            return name
    names = sorted({spelling for family in known.values() for spelling in (*family.architectures, family.gguf)})
    raise ModelError(f"architecture {architecture!r} is not supported; known: {', '.join(names)}")
