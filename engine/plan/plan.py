"""A plan: what fits where, what each kind of attention and number saves, and what to start the engine with."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.plan.kv import sequence_bytes, token_bytes
from engine.plan.shape import Latent, Shape

WEIGHT_BITS = {"fp32": 32.0, "fp16": 16.0, "bf16": 16.0, "int8": 8.5, "int4": 4.5}
"""Bits of a weight; the integer kinds with a 16-bit scale for each 32 of them, as GGUF's Q8_0 and Q4_0."""

USABLE = 0.9
"""Of the memory asked about, the share that weights and cache may take together."""

_BASE_KIND = "fp16"
_MOST_RUNNING = 256
_LATENT_HEADS, _ROPE_HEADS = 4, 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a plan.

    Attributes:
        context: tokens of a sequence, prompt and answer.
        memory_bytes: for weights and cache together.
        kv: a name in KV_TYPES.
        weights: a name in WEIGHT_BITS.
        block_size: tokens in a block.
        stored_bytes: what the weights take as their files keep them; used instead of `weights` when given.
    """

    context: int
    memory_bytes: int
    kv: str = "fp16"
    weights: str = "fp16"
    block_size: int = 16
    stored_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to keep the same model's context.

    Attributes:
        share: of what full multi-head attention in fp16 would take for one sequence.
        sequences: that would fit.
        own: whether the model is made like this.
    """

    name: str
    token_bytes: int
    sequence_bytes: int
    share: float
    sequences: int
    own: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer.

    Attributes:
        kv_token_bytes: while every layer sees the token.
        kv_sequence_bytes: of one sequence of `context` tokens, in whole blocks.
        cache_bytes: what is left for keys and values beside the weights.
        sequences: of that length that fit at once.
        kv_tokens, max_running: what to start the engine with; 0 when the weights leave no room.
    """

    shape: Shape
    question: Question
    parameters: int
    weights_bytes: int
    kv_token_bytes: int
    kv_sequence_bytes: int
    cache_bytes: int
    sequences: int
    kv_tokens: int
    max_running: int
    variants: tuple[Variant, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values; the shape without its defaults."""
        question, shape = self.question, self.shape
        return {
            "model": shape.name,
            "attention": shape.attention,
            "layers": shape.layers,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "parameters": self.parameters,
            "weights": {"kind": question.weights if question.stored_bytes is None else "as stored"}
            | {"bytes": self.weights_bytes},
            "kv": {
                "kind": question.kv,
                "bytes_per_token": self.kv_token_bytes,
                "context": question.context,
                "bytes_per_sequence": self.kv_sequence_bytes,
            },
            "memory_bytes": question.memory_bytes,
            "cache_bytes": self.cache_bytes,
            "sequences": self.sequences,
            "suggestion": {"kv_tokens": self.kv_tokens, "max_running": self.max_running},
            "variants": [asdict(variant) for variant in self.variants],
        }


def make_plan(shape: Shape, question: Question) -> Plan:
    """The plan for a model and a question; pure."""
    size, context = question.block_size, question.context
    weights = question.stored_bytes
    if weights is None:
        weights = int(shape.parameters * WEIGHT_BITS[question.weights] / 8)
    cache = max(0, int(question.memory_bytes * USABLE) - weights)
    each = sequence_bytes(shape, question.kv, context, size)
    sequences = cache // each
    kv_tokens = _pool_tokens(shape, question, cache)
    return Plan(
        shape=shape,
        question=question,
        parameters=shape.parameters,
        weights_bytes=weights,
        kv_token_bytes=token_bytes(shape, question.kv),
        kv_sequence_bytes=each,
        cache_bytes=cache,
        sequences=sequences,
        kv_tokens=kv_tokens,
        max_running=max(1, min(_MOST_RUNNING, kv_tokens // context)) if kv_tokens else 0,
        variants=_variants(shape, question, cache),
    )


def _pool_tokens(shape: Shape, question: Question, cache_bytes: int) -> int:
    """Tokens of a pool that fits: every layer's pool has room for all of them, windows or not; in whole blocks."""
    size = question.block_size
    most = _MOST_RUNNING * -(-question.context // size) * size
    return min(most, cache_bytes // (token_bytes(shape, question.kv) * size) * size)


def _variants(shape: Shape, question: Question, cache_bytes: int) -> tuple[Variant, ...]:
    """The model as it is, and as it would be with other attention, windows, sharing or numbers.

    The latent of a model that has none is sized as DeepSeek-V2 does: four heads and half a head for rotation.
    """
    bare = replace(shape, latent=None, windows=(), kv_from=())
    latent = shape.latent or Latent(_LATENT_HEADS * shape.head_dim, int(_ROPE_HEADS * shape.head_dim), 0, 0)
    mha = replace(bare, kv_heads=shape.heads, head_dim=_full_head(shape))
    ways: list[tuple[str, Shape, str]] = [
        ("MHA", mha, _BASE_KIND),
        (f"GQA, {shape.kv_heads} KV heads", bare, _BASE_KIND),
        ("MQA, 1 KV head", replace(mha, kv_heads=1), _BASE_KIND),
        (f"MLA, latent {latent.kv_rank} + {latent.rope_dim}", replace(bare, latent=latent), _BASE_KIND),
    ]
    if not 1 < shape.kv_heads < shape.heads:
        del ways[1]
    windows = next((window for window in shape.windows if window is not None), None)
    if windows is not None:
        near = sum(window is not None for window in shape.windows)
        name = f"{shape.attention}, window {windows} in {near} of {shape.layers} layers"
        ways.append((name, replace(shape, kv_from=()), _BASE_KIND))
    sharing = replace(shape, kv_from=shape.kv_from or _in_pairs(shape))
    ways.append((f"as built, {shape.layers} layers share {len(sharing.own_kv)} caches", sharing, _BASE_KIND))
    ways += [(f"as built, {kind}", shape, kind) for kind in ("fp16", "int8", "fp8")]
    if question.kv not in ("fp16", "int8", "fp8"):
        ways.append((f"as built, {question.kv}", shape, question.kv))
    base = sequence_bytes(mha, _BASE_KIND, question.context)
    taken = [sequence_bytes(way, kind, question.context) for _, way, kind in ways]
    return tuple(
        Variant(
            name=name,
            token_bytes=token_bytes(way, kind),
            sequence_bytes=each,
            share=round(each / base, 4),
            sequences=cache_bytes // each,
            own=name == f"as built, {question.kv}",
        )
        for (name, way, kind), each in zip(ways, taken, strict=True)
    )


def _full_head(shape: Shape) -> int:
    """D of keys and values of plain attention; with a latent they differ, and the mean counts both."""
    latent = shape.latent
    return shape.head_dim if latent is None else (latent.nope_dim + latent.rope_dim + latent.value_dim) // 2


def _in_pairs(shape: Shape) -> tuple[int, ...]:
    """Each second layer of a kind reads what the one of its kind before it keeps."""
    windows = shape.windows or (None,) * shape.layers
    latest: dict[int | None, int | None] = {}
    source: list[int] = []
    for layer, window in enumerate(windows):
        before = latest.get(window)
        source.append(layer if before is None else before)
        latest[window] = layer if before is None else None
    return tuple(source)
