"""What the engine is told at its start, as frozen values; knows nothing of torch."""

from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults

WEIGHT_FORMATS = ("fp16", "fp32")
"""The names in `engine.kernels.LINEARS`."""

_LAST_PORT = 65535
_MAX_TEMPERATURE = 2


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the scheduler and the KV pool may use.

    Attributes:
        block_size: tokens in a KV block.
        kv_tokens: tokens the KV pool holds, over all sequences.
        max_running: sequences decoded in one step.
        max_waiting: sequences queued before a request is refused with 429.
        chunk_tokens: a prefill is cut at multiples of this position, whatever else runs, so that a prompt is
            always computed in the same pieces and its numbers do not depend on its neighbours.
        step_tokens: most tokens computed in one step; decodes come first.
        default_max_tokens: bound on the answer when the client names none.
        min_cache_tokens: shortest marked prefix that is kept longer than others.
        sampling: what a request that says nothing is sampled with.
        weights: how linear weights are kept, a name in `engine.kernels.LINEARS`.
    """

    block_size: int = 16
    kv_tokens: int = 16384
    max_running: int = 16
    max_waiting: int = 256
    chunk_tokens: int = 128
    step_tokens: int = 192
    default_max_tokens: int = 512
    min_cache_tokens: int = 64
    weights: str = "fp16"
    sampling: SamplingDefaults = PLAIN_SAMPLING

    def __post_init__(self) -> None:
        """Refuse numbers the scheduler could not make progress with."""
        if min(self.block_size, self.max_running, self.chunk_tokens, self.default_max_tokens) < 1:
            raise EngineError("block size, max running, chunk tokens and max tokens must be at least 1")
        if self.min_cache_tokens < 1:
            raise EngineError("min cache tokens must be at least 1")
        if not (0 <= self.sampling.temperature <= _MAX_TEMPERATURE and 0 <= self.sampling.top_p <= 1):
            raise EngineError(f"temperature must be from 0 to {_MAX_TEMPERATURE}, top-p from 0 to 1")
        if self.max_waiting < 0:
            raise EngineError("max waiting must not be negative")
        if self.kv_tokens < self.block_size:
            raise EngineError("kv tokens must hold at least one block")
        if self.step_tokens < self.chunk_tokens + self.max_running:
            raise EngineError("step tokens must hold one chunk beside every running sequence")

    @property
    def num_blocks(self) -> int:
        """Whole blocks in the pool."""
        return self.kv_tokens // self.block_size


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
