"""Shapes of well-known models, from the configurations their makers published."""

import re
from collections.abc import Mapping

from engine.errors import ModelError
from engine.plan.shape import Experts, Latent, Shape

_GEMMA_WINDOW, _GEMMA_PERIOD = 512, 6


def _sliding(layers: int) -> tuple[int | None, ...]:
    """Gemma 3: every sixth layer sees everything, the others a window."""
    return tuple(None if layer % _GEMMA_PERIOD == _GEMMA_PERIOD - 1 else _GEMMA_WINDOW for layer in range(layers))


def _gemma(name: str, hidden: int, layers: int, intermediate: int) -> Shape:
    return Shape(
        *(name, hidden, layers, 4, 1, 256, intermediate, 262144, 32768),
        tied=True,
        windows=_sliding(layers),
        qk_norm=True,
        norms=4,
    )


_ALL: tuple[Shape, ...] = (
    Shape("smollm2-135m", 576, 30, 9, 3, 64, 1536, 49152, 8192, tied=True),
    Shape("smollm2-360m", 960, 32, 15, 5, 64, 2560, 49152, 8192, tied=True),
    _gemma("gemma-3-270m", 640, 18, 2048),
    _gemma("gemma-3-1b", 1152, 26, 6912),
    Shape("qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151936, 32768, tied=True, qkv_bias=True),
    Shape("qwen3-0.6b", 1024, 28, 16, 8, 128, 3072, 151936, 40960, tied=True, qk_norm=True),
    Shape("qwen3-8b", 4096, 36, 32, 8, 128, 12288, 151936, 40960, qk_norm=True),
    Shape("tinyllama-1.1b", 2048, 22, 32, 4, 64, 5632, 32000, 2048),
    Shape("llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, 4096),
    Shape("llama-2-70b", 8192, 80, 64, 8, 128, 28672, 32000, 4096),
    Shape("llama-3-8b", 4096, 32, 32, 8, 128, 14336, 128256, 8192),
    Shape("llama-3.1-8b", 4096, 32, 32, 8, 128, 14336, 128256, 131072),
    Shape("llama-3-70b", 8192, 80, 64, 8, 128, 28672, 128256, 8192),
    Shape("llama-3.1-70b", 8192, 80, 64, 8, 128, 28672, 128256, 131072),
    Shape("mistral-7b", 4096, 32, 32, 8, 128, 14336, 32000, 32768, windows=(4096,) * 32),
    Shape("mixtral-8x7b", 4096, 32, 32, 8, 128, 14336, 32000, 32768, experts=Experts(8, 0, 14336)),
    Shape("falcon-7b", 4544, 32, 71, 1, 64, 18176, 65024, 2048, tied=True, gated=False),
    Shape(
        "deepseek-v2-lite",
        *(2048, 27, 16, 16, 192, 10944, 102400, 163840),
        latent=Latent(kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128),
        experts=Experts(routed=64, shared=2, size=1408, dense_layers=1),
    ),
    Shape(
        "deepseek-v3",
        *(7168, 61, 128, 128, 192, 18432, 129280, 163840),
        latent=Latent(kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536),
        experts=Experts(routed=256, shared=1, size=2048, dense_layers=3),
    ),
)

SHAPES: Mapping[str, Shape] = {shape.name: shape for shape in _ALL}
"""By the name `lamina plan` takes."""

_SUFFIXES = ("instruct", "base", "chat", "hf", "it")


def find_shape(name: str) -> Shape:
    """The shape of that name; case, separators, an owner before a slash and endings like `-Instruct` are ignored.

    Raises:
        ModelError: none has it; the text lists those there are.
    """
    plain = {_plain(known): shape for known, shape in SHAPES.items()}
    shape = plain.get(_plain(name))
    if shape is None:
        raise ModelError(f"no model folder, GGUF file or known shape {name!r}; known: {', '.join(SHAPES)}")
    return shape


def _plain(name: str) -> str:
    words = re.split(r"[-_\s]+", name.rpartition("/")[2].lower())
    while len(words) > 1 and words[-1] in _SUFFIXES:
        words.pop()
    return re.sub(r"^meta", "", "".join(words))
