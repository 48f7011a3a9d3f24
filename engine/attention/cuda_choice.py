"""Which attention a machine gets, best first, and why; pure, so that it can be tested without one."""

from dataclasses import dataclass

OWN_KERNELS_FROM = (8, 0)
"""Compute capability from which Triton compiles for a device, and bf16 has matrix units."""

FP8_FROM = (8, 9)
"""Compute capability from which Triton converts e4m3."""

HOPPER = (9, 0)
LARGEST_HEAD = 256
_HALF = ("fp16", "bf16")
_FLASHINFER_HEADS = (64, 128, 256)


@dataclass(frozen=True, slots=True)
class AttentionFacts:
    """What the choice depends on.

    Attributes:
        capability: of the device, or None where there is no CUDA.
        importable: which of triton, flashinfer and flash_attn_interface (FlashAttention 3) can be imported.
        dtype: of queries: fp32, fp16 or bf16.
        kv_dtype: a name in `engine.attention.paged.KV_FORMATS`.
        head_dim: D.
    """

    capability: tuple[int, int] | None
    importable: frozenset[str]
    dtype: str
    kv_dtype: str
    head_dim: int


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """One way to attend.

    Attributes:
        attention: `triton`, with decodes captured in CUDA graphs, or `sdpa`, without.
        chunks: who attends for prompt chunks in layers without a window: triton, flashinfer, varlen or sdpa.
        reason: why it comes where it does.
    """

    attention: str
    chunks: str
    reason: str


def attention_choices(facts: AttentionFacts) -> tuple[AttentionChoice, ...]:
    """Return all ways that may work here, best first; the last one always does."""
    why_not = _why_no_kernels(facts)
    if why_not is not None:
        return (AttentionChoice("sdpa", "sdpa", why_not),)
    own = AttentionChoice("triton", "triton", "own kernels take every KV type, head size and window")
    gathered = AttentionChoice("sdpa", "sdpa", "gathering works everywhere")
    return (*_borrowed(facts), own, gathered)


def _why_no_kernels(facts: AttentionFacts) -> str | None:
    if facts.capability is None:
        return "there is no CUDA device"
    if "triton" not in facts.importable:
        return "triton is not installed"
    if facts.capability < OWN_KERNELS_FROM:
        return f"compute capability {_dotted(facts.capability)} is below {_dotted(OWN_KERNELS_FROM)}"
    if facts.kv_dtype == "fp8" and facts.capability < FP8_FROM:
        return f"compute capability {_dotted(facts.capability)} does not convert fp8"
    if facts.head_dim > LARGEST_HEAD:
        return f"heads of {facts.head_dim} do not fit a tile"
    return None


def _borrowed(facts: AttentionFacts) -> tuple[AttentionChoice, ...]:
    """Return other houses' prefill kernels, which read half-precision pools only."""
    if facts.kv_dtype not in _HALF or facts.kv_dtype != facts.dtype:
        return ()
    found = []
    if "flashinfer" in facts.importable and facts.head_dim in _FLASHINFER_HEADS:
        found.append(AttentionChoice("triton", "flashinfer", "FlashInfer's prefill is tuned by its makers"))
    if "flash_attn_interface" in facts.importable and facts.capability == HOPPER and facts.head_dim % 8 == 0:
        found.append(AttentionChoice("triton", "varlen", "FlashAttention 3 is built for Hopper"))
    return tuple(found)


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
