"""What the engine is told about a GPU; knows nothing of torch."""

from dataclasses import dataclass

from engine.errors import EngineError

DTYPES = ("bf16", "fp16", "fp32")
"""Of weights and activations."""

ATTENTION = ("auto", "triton", "flashinfer", "varlen", "sdpa")
"""Who attends for prompt chunks; `auto` is the first of the others that fits the device and is right on it."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Where and how to compute when not on the CPU.

    Attributes:
        device: `cuda:0`, `cuda:1`, ...; `cpu` runs the same code without graphs, for tests.
        dtype: of weights and activations, one of `DTYPES`.
        kv_share: of the memory left beside weights and the largest step, the share for keys and values; None where
            the config says how many tokens there are.
        attention: one of `ATTENTION`.
        graphs: whether decode steps are recorded as CUDA graphs.
    """

    device: str = "cuda:0"
    dtype: str = "bf16"
    kv_share: float | None = 0.9
    attention: str = "auto"
    graphs: bool = True

    def __post_init__(self) -> None:
        """Refuse what torch would crash on."""
        if self.kv_share is not None and not 0 < self.kv_share <= 1:
            raise EngineError("the share of memory for keys and values must be above 0 and at most 1")


def resolved_device(asked: str, cuda_devices: int) -> str:
    """Return `cpu` or `cuda:N`.

    Args:
        asked: `auto` for the first GPU or else the CPU, `cpu`, `cuda` or `cuda:N`.
        cuda_devices: how many GPUs there are.

    Raises:
        EngineError: there is no such device.
    """
    if asked == "cpu" or (asked == "auto" and cuda_devices == 0):
        return "cpu"
    kind, _, index = asked.partition(":")
    if asked == "auto":
        kind, index = "cuda", "0"
    if kind != "cuda" or not (index or "0").isdecimal():
        raise EngineError(f"device {asked!r} is unknown; known: auto, cpu, cuda, cuda:N")
    if int(index or 0) >= cuda_devices:
        raise EngineError(f"device {asked!r} is not there: {cuda_devices} CUDA devices are visible")
    return f"cuda:{int(index or 0)}"
