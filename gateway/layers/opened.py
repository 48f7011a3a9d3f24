"""Entries this worker has opened lately: the same stored bytes under the same key need no second proof.

What is remembered is never served by itself: each request reads Redis, and only bytes equal to those that were
authenticated before are taken as opened.
"""

from dataclasses import dataclass

from gateway.layers.entry import Entry, Sealer, plain_bytes
from policies.decide import Life
from policies.types import ChatResponse

_MAX_ENTRIES = 1024
_MAX_ENTRY_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class Opened:
    """An authentic entry, with its answer in neutral form; shared by requests, so not to be changed."""

    stored: bytes
    entry: Entry
    response: ChatResponse
    life: Life


class OpenedEntries:
    """Remembers up to 1,024 entries of at most 32 KiB once unpacked, the oldest forgotten first.

    When a data key is destroyed, everything is forgotten.
    """

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._known: dict[bytes, Opened] = {}
        self._generation = sealer.generation

    def open(self, stored: bytes, tenant_id: str, key: bytes) -> Opened:
        """The entry in `stored`, proven to be of this tenant and key.

        Raises:
            EntryError: see Sealer.open.
        """
        if self._generation != self._sealer.generation:
            self._known.clear()
            self._generation = self._sealer.generation
        known = self._known.get(key)
        if known is not None and known.stored == stored:
            return known
        entry = self._sealer.open(stored, tenant_id, key)
        opened = Opened(stored, entry, entry.response(), Life(entry.created_s, entry.ttl_s))
        if plain_bytes(stored) <= _MAX_ENTRY_BYTES:
            if len(self._known) >= _MAX_ENTRIES:
                del self._known[next(iter(self._known))]
            self._known[key] = opened
        return opened
