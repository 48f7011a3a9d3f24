"""What tells one decoder family from another; everything else is the same code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ConfigReader = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From a file's own settings to fields of `ModelConfig` that only some families have."""


def _nothing(raw: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001  (a ConfigReader)
    return {}


@dataclass(frozen=True, slots=True)
class Family:
    """Names and flags of one family.

    Attributes:
        architectures: Hugging Face's names for it in config.json.
        gguf: GGUF's `general.architecture`.
        qkv_bias: queries, keys and values have biases.
        qk_norm: each query and key head is normed before the rotation.
        post_norms: the outputs of attention and feed-forward are normed before they are added.
        gain_offset: what safetensors folders leave out of norm gains; GGUF files have it in.
        folder_defaults: what config.json may leave out.
        folder_fields: further fields from config.json; may raise KeyError, TypeError, ModelError.
        gguf_fields: likewise from GGUF metadata, its keys without the architecture in front.
    """

    architectures: tuple[str, ...]
    gguf: str
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    gain_offset: float = 0.0
    folder_defaults: Mapping[str, Any] = field(default_factory=dict)
    folder_fields: ConfigReader = _nothing
    gguf_fields: ConfigReader = _nothing
