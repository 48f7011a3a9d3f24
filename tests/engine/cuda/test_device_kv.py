"""Blocks that leave, come back and are copied, on the device where there is one."""

from collections.abc import Sequence

import pytest
import torch

from engine.attention.paged import KvShape, PagedKV
from engine.cuda.device_kv import DeviceKV, independent
from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, KvGroup
from tests.engine.attention.pools import DEVICE

GROUPS = (KvGroup((0, 2)), KvGroup((1,), window=8))
FORMATS = ["fp32", "bf16", "int8", "fp8"]


def filled(kind: str, store: type[PagedKV] = DeviceKV) -> PagedKV:
    kv = store(GROUPS, (6, 5), KvShape(2, 8, 4, kind, DEVICE))
    generator = torch.Generator().manual_seed(0)
    for pool in kv.pools:
        for part in pool.parts:
            raw = part.view(torch.uint8)
            raw.copy_(torch.randint(0, 256, raw.shape, generator=generator, dtype=torch.uint8))
    return kv


def raw(kv: PagedKV) -> list[torch.Tensor]:
    return [part.view(torch.uint8).cpu().clone() for pool in kv.pools for part in pool.parts]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_block_comes_back_bit_for_bit(kind: str) -> None:
    kv = filled(kind)
    before = raw(kv)
    payloads = {(group, block): kv.read_block(group, block) for group in (0, 1) for block in (0, 4)}
    assert all(len(payload) == kv.block_bytes(group) for (group, _), payload in payloads.items())
    for (group, block), payload in payloads.items():
        for part in kv.pools[group].parts:
            part.view(torch.uint8)[:, block * 4 : block * 4 + 4] = 7
        kv.restore([BlockRestore(group, block, b"", payload)])
    assert all(torch.equal(was, now) for was, now in zip(before, raw(kv), strict=True))
    with pytest.raises(ValueError, match="3 bytes are not a block of group 0"):
        kv.write_block(0, 0, b"abc")


def test_what_is_saved_is_what_was_there_before_the_step_overwrote_it() -> None:
    kv = filled("int8")
    expected = kv.read_block(0, 3)
    under_way = kv.begin_saves([BlockSave(0, 3, b"digest")])
    for part in kv.pools[0].parts:
        part.view(torch.uint8).fill_(1)
    ((save, copy),) = under_way
    assert (save.digest, copy.payload()) == (b"digest", expected)


@pytest.mark.parametrize("kind", FORMATS)
def test_copies_happen_as_if_one_after_the_other(kind: str) -> None:
    copies = (
        BlockCopy(0, 0, 1, 3),
        BlockCopy(0, 2, 3, 4),
        BlockCopy(0, 1, 4, 2),
        BlockCopy(1, 0, 2, 1),
        BlockCopy(1, 0, 3, 4),
        BlockCopy(1, 1, 0, 4),
    )
    kv, plain = filled(kind), filled(kind, PagedKV)
    sizes = [part.shape[1] for pool in plain.pools for part in pool.parts]
    for pool, wider in zip(plain.pools, kv.pools, strict=True):
        for part, other in zip(pool.parts, wider.parts, strict=True):
            part.view(torch.uint8).copy_(other.view(torch.uint8)[:, : part.shape[1]])
    kv.copy(copies)
    plain.copy(copies)
    for was, now, size in zip(raw(plain), raw(kv), sizes, strict=True):
        assert torch.equal(was, now[:, :size])


def pairs(runs: Sequence[Sequence[BlockCopy]]) -> list[list[tuple[int, int]]]:
    return [[(one.source, one.target) for one in run] for run in runs]


def test_copies_that_depend_on_each_other_are_kept_apart() -> None:
    copies = [BlockCopy(0, source, target, 1) for source, target in ((1, 2), (1, 3), (2, 4), (5, 1), (6, 1))]
    assert pairs(independent(copies)) == [[(1, 2), (1, 3)], [(2, 4), (5, 1)], [(6, 1)]]
    assert pairs(independent([BlockCopy(0, 1, 2, 1), BlockCopy(1, 1, 2, 1)])) == [[(1, 2)], [(1, 2)]]
    assert independent([]) == []


def test_there_is_a_block_that_nobody_was_promised() -> None:
    kv = DeviceKV(GROUPS, (6, 5), KvShape(2, 8, 4, "fp32", DEVICE))
    assert kv.null_blocks == (6, 5)
    assert [pool.values.shape[1] for pool in kv.pools] == [28, 24]
    assert all(part.count_nonzero() == 0 for pool in kv.pools for part in pool.parts)
