"""Which kernels do the small work beside attention: Triton's where attention is Triton's, else plain torch."""

from importlib import import_module
from typing import Any

import torch

from engine.cuda.device_kv import SlotCopier, copy_by_index
from engine.cuda.row_ops import RowOps, TorchRowOps
from engine.loader.contract import ModelConfig

_ROWS = "engine.attention.triton_kernels.rows"
_COPY = "engine.attention.triton_kernels.copy"


def row_ops(attention: str, config: ModelConfig, dtype: torch.dtype) -> RowOps:
    """Make the row operations that go with an attention backend."""
    make: Any = import_module(_ROWS).TritonRowOps if attention == "triton" else TorchRowOps
    found: RowOps = make(config.norm_eps, dtype, config.activation)
    return found


def slot_copier(attention: str) -> SlotCopier:
    """Return what copies slots inside a pool."""
    found: SlotCopier = import_module(_COPY).copy_slots if attention == "triton" else copy_by_index
    return found
