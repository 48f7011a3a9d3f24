"""Models to measure with: a folder, or weights of a well-known shape drawn at random, for machines with no files.

Speed does not depend on what the weights are; the words do, and nobody reads them here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import tokenizers
import torch

from engine.loader import Checkpoint, ModelConfig, StoredWeight, Weights, open_checkpoint
from engine.loader.matrix import Matrix
from engine.tokenizer import Tokenizer

_DRAWN = 1 << 20
_SPREAD = 0.02

SHAPES: Mapping[str, ModelConfig] = {
    "tiny": ModelConfig(
        family="qwen3",
        hidden=64,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=96,
        vocab=512,
        context=512,
        norm_eps=1e-6,
        rope_theta=1e6,
        tied=True,
    ),
    "qwen3-0.6b": ModelConfig(
        family="qwen3",
        hidden=1024,
        layers=28,
        heads=16,
        kv_heads=8,
        head_dim=128,
        intermediate=3072,
        vocab=151936,
        context=40960,
        norm_eps=1e-6,
        rope_theta=1e6,
        tied=True,
    ),
    "llama3-8b": ModelConfig(
        family="llama",
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=14336,
        vocab=128256,
        context=8192,
        norm_eps=1e-5,
        rope_theta=5e5,
        tied=False,
    ),
}


def no_text() -> Tokenizer:
    """Return a tokenizer that knows one word; nobody reads what random weights say."""
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}))
    return Tokenizer(backend, byte_level=True, specials=frozenset())


def open_model(where: str) -> Checkpoint:
    """Open a folder or file, or draw a shape's weights."""
    if where not in SHAPES:
        return open_checkpoint(Path(where))
    config = SHAPES[where]
    return Checkpoint(config, random_weights(config), no_text(), None, frozenset())


def parameters(config: ModelConfig) -> int:
    """Count the weights that every token is multiplied with; the head is counted, looking up is not."""
    attention = config.hidden * config.head_dim * (2 * config.heads + 2 * config.kv_heads)
    return config.layers * (attention + 3 * config.hidden * config.intermediate) + config.vocab * config.hidden


def random_weights(config: ModelConfig) -> Weights:
    """Draw a million numbers, and repeat them for as long as each weight is."""
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(_DRAWN, generator=generator) * _SPREAD).to(torch.bfloat16).view(torch.uint8).numpy()
    query, key, hidden = config.heads * config.head_dim, config.kv_heads * config.head_dim, config.hidden
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocab, hidden)
    for index in range(config.layers):
        name = f"model.layers.{index}"
        shapes |= {
            f"{name}.input_layernorm.weight": (hidden,),
            f"{name}.post_attention_layernorm.weight": (hidden,),
            f"{name}.self_attn.q_proj.weight": (query, hidden),
            f"{name}.self_attn.k_proj.weight": (key, hidden),
            f"{name}.self_attn.v_proj.weight": (key, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, query),
            f"{name}.mlp.gate_proj.weight": (config.intermediate, hidden),
            f"{name}.mlp.up_proj.weight": (config.intermediate, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, config.intermediate),
        }
        if config.family == "qwen3":
            shapes |= {f"{name}.self_attn.{part}_norm.weight": (config.head_dim,) for part in "qk"}
    return Weights({name: StoredWeight(shape, _reader(drawn, shape)) for name, shape in shapes.items()})


def _reader(drawn: np.ndarray, shape: tuple[int, ...]) -> Callable[[], Matrix]:
    rows = shape[0] if len(shape) > 1 else 1
    return partial(_repeated, drawn, rows, shape[-1])


def _repeated(drawn: np.ndarray, rows: int, columns: int) -> Matrix:
    return Matrix("BF16", np.resize(drawn, rows * columns * 2).reshape(rows, columns * 2), columns)
