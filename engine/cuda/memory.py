"""How many KV blocks a device has room for, once the weights are there and a step has shown what it needs."""

import gc
from collections.abc import Callable, Sequence

import torch

from engine.errors import EngineError


def blocks_that_fit(free_bytes: int, share: float, block_bytes: Sequence[int]) -> int:
    """Return how many blocks each KV group gets, all alike.

    Args:
        free_bytes: left on the device beside weights and the largest step.
        share: of that to be used, (0, 1].
        block_bytes: of one block of each group.

    Raises:
        EngineError: not even one block fits, or the share makes no sense.
    """
    if not 0 < share <= 1:
        raise EngineError("the share of memory for keys and values must be above 0 and at most 1")
    count = int(free_bytes * share) // sum(block_bytes)
    if count < 1:
        raise EngineError(f"{free_bytes} bytes are free on the device, which is no room for keys and values")
    return count


def free_beside(device: str, step: Callable[[], None]) -> int:
    """Run the largest step and return the bytes that are free on a CUDA device when its own are taken off.

    Side effects: gives cached memory back to the device.
    """
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    resting = torch.cuda.memory_allocated(device)
    step()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - resting
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return int(free) - peak
