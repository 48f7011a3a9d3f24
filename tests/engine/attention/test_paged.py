"""The KV pool keeps what it is given, as closely as its format can, and moves blocks bit for bit."""

import pytest
import torch

from engine.attention.paged import KV_FORMATS, KvShape, PagedKV
from engine.errors import EngineError
from engine.kv.contract import BlockCopy, KvGroup

GROUPS = (KvGroup((1, 3)), KvGroup((0, 2, 4), window=8))
BLOCKS = (6, 4)
SIZE, KV_HEADS, DIM = 4, 2, 8
CLOSENESS = {"fp32": 0.0, "fp16": 2**-10, "bf16": 2**-7, "int8": 0.5 / 127, "fp8": 2**-4}
"""Largest error of a value, as a share of the largest in its head."""


def make(dtype: str = "fp32") -> PagedKV:
    kv = PagedKV(GROUPS, BLOCKS, KvShape(KV_HEADS, DIM, SIZE, dtype))
    for pool in kv.pools:
        for part in pool.parts:
            part.copy_(torch.zeros(part.shape).to(part.dtype))
    return kv


def rows(count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    spread = torch.tensor([0.01, 1.0, 30.0, 1.0]).view(1, 4, 1)
    return torch.randn(count, 2 * KV_HEADS, DIM, generator=generator) * spread


def back(kv: PagedKV, layer: int, slots: torch.Tensor) -> torch.Tensor:
    keys, values = kv.read(layer, slots, torch.float32)
    return torch.cat((keys, values), dim=1)[0].transpose(0, 1)


@pytest.mark.parametrize("dtype", KV_FORMATS)
def test_what_is_written_is_read_back(dtype: str) -> None:
    kv, slots = make(dtype), torch.tensor([5, 0, 13])
    for layer in range(5):
        kv.write(layer, slots, rows(3, layer))
    for layer in range(5):
        expected = rows(3, layer)
        error = (back(kv, layer, slots) - expected).abs()
        assert bool((error <= expected.abs().amax(-1, keepdim=True) * CLOSENESS[dtype] * 1.0001).all())
    assert kv.group_of(2) == 1
    assert kv.group_of(3) == 0


@pytest.mark.parametrize("dtype", KV_FORMATS)
def test_zeros_and_extremes_stay_finite(dtype: str) -> None:
    kv = make(dtype)
    extreme = torch.zeros(2, 2 * KV_HEADS, DIM)
    extreme[1, :, 0] = -60000.0
    kv.write(0, torch.tensor([1, 2]), extreme)
    assert back(kv, 0, torch.tensor([1, 2])).isfinite().all()
    assert not back(kv, 0, torch.tensor([1])).any()


@pytest.mark.parametrize("dtype", KV_FORMATS)
@pytest.mark.parametrize("group", [0, 1])
def test_a_block_goes_out_and_comes_back_bit_for_bit(dtype: str, group: int) -> None:
    kv = make(dtype)
    for layer in GROUPS[group].layers:
        kv.write(layer, torch.arange(8), rows(8, layer))
    payload = kv.read_block(group, 1)
    assert len(payload) == kv.block_bytes(group)
    kv.write_block(group, 3, payload)
    assert kv.read_block(group, 3) == payload
    for layer in GROUPS[group].layers:
        found, expected = back(kv, layer, torch.arange(12, 16)), back(kv, layer, torch.arange(4, 8))
        assert torch.equal(found, expected)
        assert not back(kv, layer, torch.arange(8, 12)).any()


@pytest.mark.parametrize("dtype", KV_FORMATS)
def test_bytes_that_are_no_block_change_nothing(dtype: str) -> None:
    """llama.cpp#14434: restoring what is empty, cut short or too long is an error, and the pool is as it was."""
    kv = make(dtype)
    kv.write(0, torch.arange(8), rows(8))
    before = [kv.read_block(1, block) for block in range(BLOCKS[1])]
    for payload in (b"", before[0][:-1], before[0] + b"x"):
        with pytest.raises(ValueError, match="not a block of group"):
            kv.write_block(1, 1, payload)
    assert [kv.read_block(1, block) for block in range(BLOCKS[1])] == before


@pytest.mark.parametrize("dtype", KV_FORMATS)
def test_a_copy_takes_the_first_slots_of_every_layer_in_order(dtype: str) -> None:
    kv = make(dtype)
    for layer in GROUPS[1].layers:
        kv.write(layer, torch.arange(4), rows(4, layer))
    kv.copy((BlockCopy(1, 0, 2, 3), BlockCopy(1, 2, 3, 2)))
    for layer in GROUPS[1].layers:
        stored = back(kv, layer, torch.arange(16))
        assert torch.equal(stored[8:11], stored[:3])
        assert torch.equal(stored[12:14], stored[:2])
        assert not stored[11].any()
        assert not stored[14:].any()
    assert all(not part.view(torch.uint8).any() for part in kv.pools[0].parts)


def test_int8_takes_a_little_over_a_quarter_of_fp32() -> None:
    full, small = (make(dtype).block_bytes(0) for dtype in ("fp32", "int8"))
    assert full == 2 * SIZE * 2 * KV_HEADS * DIM * 4
    assert small == 2 * SIZE * 2 * KV_HEADS * (DIM + 4)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(EngineError, match="'int3' is unknown; known: fp32"):
        KvShape(KV_HEADS, DIM, SIZE, "int3")
