"""Blocks in the host's memory: what the device gave up, kept under the same digests."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

HostKey = tuple[int, bytes]
"""KV group and digest. The digest holds the tenant's salt, as on the device."""


@dataclass(frozen=True, slots=True)
class HostBlock:
    """A block's bytes with what proves that they are the right ones.

    Attributes:
        payload: as `KvStore.read_block` gave it.
        checksum: CRC-32 of the payload.
        salt: the tenant's, for a purge.
        parent_digest, tokens: compared on a hit, as on the device.
    """

    payload: bytes
    checksum: int
    salt: str
    parent_digest: bytes
    tokens: bytes

    @classmethod
    def of(cls, payload: bytes, salt: str, parent_digest: bytes, tokens: bytes) -> "HostBlock":
        """Seal a payload."""
        return cls(payload, crc32(payload), salt, parent_digest, tokens)

    @property
    def intact(self) -> bool:
        """Whether the payload is what was sealed."""
        return crc32(self.payload) == self.checksum


class ColderTier(Protocol):
    """Where the host tier would hand what it gives up: the seam for a disk tier.

    An implementer keeps blocks under their keys, checks what it reads back, and answers None for anything missing,
    torn or of another format; it never raises for it.
    """

    def put(self, key: HostKey, block: HostBlock) -> None:
        """Keep a block."""
        ...

    def get(self, key: HostKey) -> HostBlock | None:
        """Return an intact block, or None."""
        ...

    def purge(self, salt: str) -> int:
        """Forget a tenant's blocks; return how many."""
        ...


class HostTier:
    """A bounded store in plain memory, least recently used first out.

    Attributes:
        capacity_bytes: of payloads.
        block_bytes: payload bytes of a block, per KV group.
        min_uses: look-ups a block must have had before it is kept here; 0 admits all.
        used_bytes, corrupt, evicted: payload bytes held; payloads that failed their checksum; blocks given up.
    """

    def __init__(
        self,
        capacity_bytes: int,
        block_bytes: tuple[int, ...],
        *,
        min_uses: int = 0,
        colder: ColderTier | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.block_bytes = block_bytes
        self.min_uses = min_uses
        self.used_bytes = 0
        self.corrupt = 0
        self.evicted = 0
        self._colder = colder
        self._blocks: OrderedDict[HostKey, HostBlock] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, key: HostKey) -> bool:
        return key in self._blocks

    def find(self, key: HostKey, parent_digest: bytes, tokens: bytes) -> HostBlock | None:
        """Return a block that holds these very tokens behind that very parent; its payload is not checked yet."""
        block = self._blocks.get(key)
        if block is None or block.tokens != tokens or block.parent_digest != parent_digest:
            return None
        return block

    def fetch(self, key: HostKey) -> bytes | None:
        """Return an intact payload and count it as used; a corrupt one is dropped, counted, and None."""
        block = self._blocks.get(key)
        if block is None:
            return None
        if not block.intact:
            self.corrupt += 1
            self._drop(key)
            return None
        self._blocks.move_to_end(key)
        return block.payload

    def put(self, key: HostKey, block: HostBlock) -> None:
        """Keep a block, giving up the least recently used; one that is larger than everything is not kept."""
        if key in self._blocks:
            self._drop(key)
        if len(block.payload) > self.capacity_bytes:
            return
        self._blocks[key] = block
        self.used_bytes += len(block.payload)
        while self.used_bytes > self.capacity_bytes:
            oldest = next(iter(self._blocks))
            if self._colder is not None:
                self._colder.put(oldest, self._blocks[oldest])
            self._drop(oldest)
            self.evicted += 1

    def forget(self, key: HostKey) -> None:
        """Keep a block no longer."""
        if key in self._blocks:
            self._drop(key)

    def purge(self, salt: str) -> int:
        """Forget a tenant's blocks; return how many."""
        keys = [key for key, block in self._blocks.items() if block.salt == salt]
        for key in keys:
            self._drop(key)
        return len(keys) + (self._colder.purge(salt) if self._colder is not None else 0)

    def check(self) -> None:
        """Prove the count of bytes.

        Raises:
            AssertionError: it is wrong or over the capacity.
        """
        held = sum(len(block.payload) for block in self._blocks.values())
        if held != self.used_bytes or held > self.capacity_bytes:
            raise AssertionError(f"the host tier counts {self.used_bytes} bytes and holds {held}")

    def _drop(self, key: HostKey) -> None:
        self.used_bytes -= len(self._blocks.pop(key).payload)
