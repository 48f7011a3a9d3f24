"""What the engine is told at its start, as frozen values; knows nothing of torch."""

from dataclasses import dataclass, replace
from pathlib import Path

from engine.cuda.options import DeviceOptions
from engine.errors import EngineError
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults

WEIGHT_FORMATS = ("fp16", "fp32")
"""The names in `engine.kernels.LINEARS`."""

KV_DTYPES = ("fp32", "fp16", "bf16", "int8", "fp8")
"""The names in `engine.attention.paged.KV_FORMATS`."""

RUNNERS = ("auto", "native", "torch")
"""What `engine.runners` can make; `auto` is the fastest that works here."""

RETENTION = ("lru", "hit-density")
"""The names in `engine.kv.retention.RETENTION`."""

_LAST_PORT = 65535
_MAX_TEMPERATURE = 2


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the scheduler and the KV cache may use.

    Attributes:
        block_size: tokens in a KV block.
        kv_tokens: tokens the KV pool holds, over all sequences.
        kv_memory_mb: memory of the KV pool, MiB; when given, it says how many tokens that is.
        kv_dtype: how keys and values are kept, one of `KV_DTYPES`.
        prefix_cache: whether a prompt may use what an earlier one left in the pool.
        retention: which cached prefixes stay when memory is short, a name in `engine.kv.retention.RETENTION`.
        host_kv_mb: memory for blocks the pool gives up, MiB; 0 for none.
        max_running: sequences decoded in one step.
        max_waiting: sequences queued before a request is refused with 429.
        tenant_waiting: of those, what one tenant may queue; None for three quarters.
        chunk_tokens: where a runner's numbers depend on where a prompt is cut, it is cut at multiples of this
            position, whatever else runs, so that it is always computed in the same pieces.
        step_tokens: most prompt tokens computed in a step in which no sequence decodes.
        prefill_tokens: most prompt tokens computed in a step beside sequences that decode; it bounds how long a
            step, and so the time per output token, may become.
        long_prefill: tokens of one prompt in a step, as long as others want their share of it.
        ageing_s: a sequence that has waited this long counts as one priority better.
        max_skips: admissions that may go past a sequence which finds no room, before all wait for it.
        default_max_tokens: bound on the answer when the client names none.
        min_cache_tokens: shortest marked prefix that is kept longer than others.
        sampling: what a request that says nothing is sampled with.
        weights: how linear weights are kept, a name in `engine.kernels.LINEARS`.
        runner: what computes steps on the CPU, one of `RUNNERS`.
        device: where to compute instead, and how; None for the CPU. Weights are then kept in its own type.
    """

    block_size: int = 16
    kv_tokens: int = 16384
    kv_memory_mb: int | None = None
    kv_dtype: str = "fp32"
    prefix_cache: bool = True
    retention: str = "hit-density"
    host_kv_mb: int = 0
    max_running: int = 16
    max_waiting: int = 256
    tenant_waiting: int | None = None
    chunk_tokens: int = 128
    step_tokens: int = 512
    prefill_tokens: int = 128
    long_prefill: int = 64
    ageing_s: float = 10.0
    max_skips: int = 16
    default_max_tokens: int = 512
    min_cache_tokens: int = 64
    weights: str = "fp16"
    runner: str = "auto"
    sampling: SamplingDefaults = PLAIN_SAMPLING
    device: DeviceOptions | None = None

    def __post_init__(self) -> None:
        """Refuse numbers the scheduler could not make progress with."""
        if min(self.block_size, self.max_running, self.chunk_tokens, self.long_prefill) < 1:
            raise EngineError("block size, max running, chunk tokens and long prefill must be at least 1")
        if min(self.default_max_tokens, self.min_cache_tokens) < 1 or self.max_skips < 0 or self.ageing_s <= 0:
            raise EngineError("max tokens, min cache tokens and ageing must be positive, max skips not negative")
        if not (0 <= self.sampling.temperature <= _MAX_TEMPERATURE and 0 <= self.sampling.top_p <= 1):
            raise EngineError(f"temperature must be from 0 to {_MAX_TEMPERATURE}, top-p from 0 to 1")
        if min(self.max_waiting, self.host_kv_mb, self.tenant_waiting or 0) < 0:
            raise EngineError("max waiting, tenant waiting and host memory must not be negative")
        if self.kv_memory_mb is not None and self.kv_memory_mb < 1:
            raise EngineError("kv memory must be at least 1 MiB")
        if self.kv_tokens < self.block_size:
            raise EngineError("kv tokens must hold at least one block")
        if min(self.step_tokens, self.prefill_tokens) < self.chunk_tokens:
            raise EngineError("step tokens and prefill tokens must hold one chunk")

    def sized(self, token_bytes: int) -> "EngineConfig":
        """Return the config with `kv_memory_mb` turned into tokens of so many bytes.

        Raises:
            EngineError: not even a block fits.
        """
        if self.kv_memory_mb is None:
            return self
        return replace(self, kv_tokens=(self.kv_memory_mb << 20) // token_bytes, kv_memory_mb=None)

    @property
    def num_blocks(self) -> int:
        """Whole blocks in the pool."""
        return self.kv_tokens // self.block_size

    @property
    def max_step_tokens(self) -> int:
        """Most tokens a step may compute."""
        return self.max_running + max(self.step_tokens, self.prefill_tokens)

    @property
    def waiting_per_tenant(self) -> int:
        """Sequences one tenant may queue."""
        if self.tenant_waiting is None:
            return self.max_waiting - self.max_waiting // 4
        return min(self.tenant_waiting, self.max_waiting)


GPU_CONFIG = EngineConfig(
    block_size=32,
    kv_dtype="bf16",
    max_running=256,
    max_waiting=1024,
    chunk_tokens=512,
    step_tokens=8192,
    prefill_tokens=2048,
    long_prefill=2048,
    device=DeviceOptions(),
)
"""Where a GPU computes: larger steps, and as many sequences as keep it busy. Not yet measured on one."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What to serve, and how.

    Attributes:
        model: a GGUF file or a safetensors folder.
        name: the model's name on the API.
        threads: torch threads.
    """

    model: Path
    name: str
    threads: int
    config: EngineConfig

    def __post_init__(self) -> None:
        """Refuse what torch would crash on."""
        if self.threads < 1:
            raise EngineError("threads must be at least 1")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: a socket path, or else a host and port."""

    path: Path | None
    host: str
    port: int

    def __post_init__(self) -> None:
        """Refuse ports that do not exist."""
        if not 0 <= self.port <= _LAST_PORT:
            raise EngineError(f"port must be between 0 and {_LAST_PORT}")
