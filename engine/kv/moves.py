"""What has to move between blocks and the host before the next step."""

from dataclasses import dataclass

from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, Transfers
from engine.kv.host_tier import HostBlock, HostKey, HostTier


@dataclass(frozen=True, slots=True)
class Label:
    """What a payload that is being read out will be kept as."""

    salt: str
    parent_digest: bytes
    tokens: bytes


class Moves:
    """Collects a step's saves, restores and copies; a move whose target is given back is forgotten."""

    def __init__(self, host: HostTier | None) -> None:
        self.host = host
        self._saves: list[BlockSave] = []
        self._restores: dict[tuple[int, int], BlockRestore] = {}
        self._copies: dict[tuple[int, int], BlockCopy] = {}
        self._awaited: dict[HostKey, Label] = {}
        self._awaited_before: dict[HostKey, Label] = {}

    def save(self, group: int, block: int, digest: bytes, label: Label) -> None:
        """Read a block out, unless the host has it or there is no host tier."""
        if self.host is not None and (group, digest) not in self.host:
            self._saves.append(BlockSave(group, block, digest))
            self._awaited[group, digest] = label

    def restore(self, group: int, block: int, digest: bytes, payload: bytes) -> None:
        """Fill a block from the host."""
        self._restores[group, block] = BlockRestore(group, block, digest, payload)

    def copy(self, copy: BlockCopy) -> None:
        """Copy the start of a block; the caller holds the source until `take`."""
        self._copies[copy.group, copy.target] = copy

    def cancel(self, group: int, block: int) -> int:
        """Forget what was to be moved into a block.

        Returns:
            the source of the copy that will not take place, -1 for none.
        """
        self._restores.pop((group, block), None)
        copy = self._copies.pop((group, block), None)
        return -1 if copy is None else copy.source

    @property
    def pending(self) -> bool:
        """Whether anything is to be moved into a block."""
        return bool(self._restores or self._copies)

    @property
    def copies(self) -> tuple[BlockCopy, ...]:
        """The copies not yet handed out; their sources are held."""
        return tuple(self._copies.values())

    def take(self) -> Transfers:
        """Hand out everything. Payloads of the hand-out before the last are not waited for any longer."""
        transfers = Transfers(tuple(self._saves), tuple(self._restores.values()), tuple(self._copies.values()))
        if self._saves or self._awaited or self._awaited_before:
            self._awaited_before, self._awaited = self._awaited, {}
        if self._saves:
            self._saves = []
        if self.pending:
            self._restores, self._copies = {}, {}
        return transfers

    def saved(self, digest: bytes, group: int, payload: bytes) -> None:
        """Give a payload to the host tier; one that is not waited for is ignored."""
        label = self._awaited_before.pop((group, digest), None) or self._awaited.pop((group, digest), None)
        if label is not None and self.host is not None:
            self.host.put((group, digest), HostBlock.of(payload, label.salt, label.parent_digest, label.tokens))

    def forget_block(self, group: int, digest: bytes) -> None:
        """Keep a block on the host no longer, and wait for it no longer."""
        self._awaited.pop((group, digest), None)
        self._awaited_before.pop((group, digest), None)
        if self.host is not None:
            self.host.forget((group, digest))

    def forget(self, salt: str) -> None:
        """Wait no longer for a tenant's payloads."""
        for awaited in (self._awaited, self._awaited_before):
            for key in [key for key, label in awaited.items() if label.salt == salt]:
                del awaited[key]
