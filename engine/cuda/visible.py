"""What CUDA devices there are."""

import torch


def visible_devices() -> int:
    """Return how many; 0 for builds of torch without CUDA."""
    return torch.cuda.device_count()
