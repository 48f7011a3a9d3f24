"""A KV pool on a device, with a spare block for padding and with saves and restores that overlap the step.

A save is gathered before the step overwrites the block and travels while the step computes; it is handed over
before `run` returns. A restore arrives before the step reads it.
"""

from collections.abc import Callable, Sequence

import torch

from engine.attention.paged import KvShape, PagedKV
from engine.cuda.host_link import HostCopy, HostLink
from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, KvGroup

SlotCopier = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Copies slots of a [layers, S, ...] pool: the pool, int64 sources, int64 targets, none of which is a source."""


def copy_by_index(pool: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy slots in plain torch."""
    words = pool.view(torch.uint8)
    words.index_copy_(1, targets, words.index_select(1, sources))


class DeviceKV(PagedKV):
    """See `PagedKV`; each group has one block more than it was asked for.

    Attributes:
        null_blocks: that block of each group; padding writes and reads it, nothing else does.
    """

    def __init__(
        self,
        groups: Sequence[KvGroup],
        num_blocks: Sequence[int],
        shape: KvShape,
        copier: SlotCopier = copy_by_index,
    ) -> None:
        super().__init__(groups, [count + 1 for count in num_blocks], shape)
        self.null_blocks = tuple(num_blocks)
        self._copier = copier
        self._link = HostLink(shape.device)
        for pool in self.pools:
            for part in pool.parts:
                part.view(torch.uint8).zero_()

    def copy(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy slots between blocks, as many at once as do not depend on each other."""
        for together in independent(copies):
            pool = self.pools[together[0].group]
            sources = self._slots([(one.source, one.tokens) for one in together])
            targets = self._slots([(one.target, one.tokens) for one in together])
            for part in pool.parts:
                self._copier(part, sources, targets)

    def begin_saves(self, saves: Sequence[BlockSave]) -> list[tuple[BlockSave, HostCopy]]:
        """Set blocks aside before the step overwrites them, and send them off."""
        return [(save, self._link.send(self._packed(save.group, save.block))) for save in saves]

    def restore(self, restores: Sequence[BlockRestore]) -> None:
        """Fetch blocks; what runs on the device after this sees them.

        Raises:
            ValueError: a payload is of another size.
        """
        for one in restores:
            self._fetch(one.group, one.block, one.payload)

    def read_block(self, group: int, block: int) -> bytes:
        """Return the bytes of a block, every layer of the group, scales behind the values."""
        return self._link.send(self._packed(group, block)).payload()

    def write_block(self, group: int, block: int, payload: bytes) -> None:
        """Put back what `read_block` returned, bit for bit; wait until it is there.

        Raises:
            ValueError: the payload is of another size.
        """
        self._fetch(group, block, payload)
        self._link.settle()

    def _fetch(self, group: int, block: int, payload: bytes) -> None:
        if len(payload) != self.block_bytes(group):
            raise ValueError(f"{len(payload)} bytes are not a block of group {group}")
        arrived = self._link.fetch(payload)
        at = 0
        for part in self._parts(group, block):
            size = part.numel() * part.itemsize
            part.view(torch.uint8).copy_(arrived[at : at + size].view(part.view(torch.uint8).shape))
            at += size

    def _packed(self, group: int, block: int) -> torch.Tensor:
        """Copy a block into one run of bytes on the device."""
        return torch.cat([part.contiguous().view(torch.uint8).flatten() for part in self._parts(group, block)])

    def _parts(self, group: int, block: int) -> tuple[torch.Tensor, ...]:
        size = self.shape.block_size
        return tuple(part[:, block * size : (block + 1) * size] for part in self.pools[group].parts)

    def _slots(self, runs: Sequence[tuple[int, int]]) -> torch.Tensor:
        size = self.shape.block_size
        slots = [block * size + offset for block, tokens in runs for offset in range(tokens)]
        return torch.tensor(slots, dtype=torch.int64).to(self.shape.device)


def independent(copies: Sequence[BlockCopy]) -> list[list[BlockCopy]]:
    """Cut copies into runs that may each be carried out in any order: one group, and no block in two of them."""
    runs: list[list[BlockCopy]] = []
    written: set[int] = set()
    read: set[int] = set()
    for one in copies:
        clash = one.target in written or one.target in read or one.source in written
        if not runs or runs[-1][0].group != one.group or clash:
            runs.append([])
            written, read = set(), set()
        runs[-1].append(one)
        written.add(one.target)
        read.add(one.source)
    return runs
