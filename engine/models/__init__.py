"""Model families. A new one is a file here and a line in the table."""

from collections.abc import Mapping
from importlib import import_module

from engine.errors import ModelError
from engine.models.contract import Model, StepInput

__all__ = ["MODELS", "Model", "StepInput", "model_class"]

MODELS: Mapping[str, str] = {"llama": "engine.models.llama:Llama"}
"""Family name (GGUF's `general.architecture`) to where its class is."""


def model_class(family: str) -> type[Model]:
    """Import the class of a family.

    Raises:
        ModelError: the family is unknown.
    """
    if family not in MODELS:
        raise ModelError(f"architecture {family!r} is not supported; known: {', '.join(MODELS)}")
    module, _, name = MODELS[family].partition(":")
    found: type[Model] = getattr(import_module(module), name)
    return found
