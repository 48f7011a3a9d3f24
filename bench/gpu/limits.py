"""What the device itself can do: bytes it copies and products it computes in a second, measured here and now."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

_WARM = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one device.

    Attributes:
        bytes_per_s: read and written by a large copy.
        flops_per_s: of a large matrix product, random numbers, in the model's dtype.
    """

    name: str
    bytes_per_s: float
    flops_per_s: float


def settle(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def seconds_of(device: str, work: Callable[[], object], repeats: int) -> float:
    """Return the mean time of one run of `work`, warm, in a row, and waited for at the end."""
    for _ in range(_WARM):
        work()
    settle(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    settle(device)
    return (time.perf_counter() - began) / repeats


def measure_limits(device: str, dtype: torch.dtype, tiny: bool) -> Limits:
    """Copy and multiply."""
    size = 1 << 20 if tiny else 4 << 30
    source = torch.empty(size, dtype=torch.uint8, device=device).zero_()
    target = torch.empty_like(source)
    copy_s = seconds_of(device, partial(target.copy_, source), 10)
    del source, target
    side = 256 if tiny else 8192
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    multiply_s = seconds_of(device, partial(torch.mm, left, right), 10)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
    return Limits(name, 2 * size / copy_s, 2 * side**3 / multiply_s)
