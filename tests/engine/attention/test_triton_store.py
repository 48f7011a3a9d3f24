"""Keys and values stored by Triton: where they go, what becomes of them, and what stays as it was."""

import pytest
import torch

from tests.engine.attention.pools import DEVICE, LIMITS, Shape, poisoned, quantised

pytest.importorskip("triton", reason="triton is not installed")

from engine.attention.triton_kernels.copy import copy_slots
from engine.attention.triton_kernels.pool import LayerPool
from engine.attention.triton_kernels.store import store_rows

KINDS = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [Shape(4, 2, 64), Shape(9, 9, 80)], ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.float16])
def test_rows_land_in_their_slots_and_nowhere_else(shape: Shape, kind: torch.dtype, source: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    projected = torch.randn(5, shape.heads + 2 * shape.kv_heads, shape.dim, generator=generator).to(DEVICE, source)
    projected[1, shape.heads] = 0
    projected[2] *= 1e-3
    rows = projected[:, shape.heads :]
    slots = torch.tensor([7, 0, -1, 9, 3], device=DEVICE)
    values, scales = poisoned(10, shape, kind)
    wanted, wanted_scales = (None if part is None else part.clone() for part in (values, scales))
    kept, kept_scales = quantised(rows, kind)
    stored = slots >= 0
    wanted[slots[stored]] = kept[stored]
    if wanted_scales is not None:
        wanted_scales[slots[stored]] = kept_scales[stored]
    store_rows(rows, slots, LayerPool(values, scales, 4))
    if kind == torch.bfloat16 and DEVICE == "cpu":  # Triton's interpreter cuts bf16 off instead of rounding it
        torch.testing.assert_close(values, wanted, rtol=2**-7, atol=0, equal_nan=True)
    else:
        assert torch.equal(values.view(torch.uint8), wanted.view(torch.uint8))
    if scales is not None:
        assert torch.equal(scales.view(torch.int32), wanted_scales.view(torch.int32))


@pytest.mark.parametrize("kind", LIMITS, ids=str)
def test_what_is_quantised_is_close_to_what_was(kind: torch.dtype) -> None:
    rows = torch.randn(3, 4, 64, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    values, scales = poisoned(3, Shape(2, 2, 64), kind)
    store_rows(rows, torch.arange(3, device=DEVICE), LayerPool(values, scales, 4))
    error = (values.float() * scales.unsqueeze(-1) - rows).abs() / rows.abs().amax(-1, keepdim=True)
    assert float(error.max()) <= (0.5 / 127 if kind == torch.int8 else 2**-4) * 1.001


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slots_are_copied_in_every_layer_bit_for_bit(kind: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(0, 256, (2, 6, 4, 80 * torch.empty(0, dtype=kind).element_size()), generator=generator)
    pool = words.to(torch.uint8).to(DEVICE).view(kind)
    wanted = pool.view(torch.uint8).clone()
    wanted[:, [4, 0]] = wanted[:, [1, 5]]
    copy_slots(pool, torch.tensor([1, 5], device=DEVICE), torch.tensor([4, 0], device=DEVICE))
    assert torch.equal(pool.view(torch.uint8), wanted)
