"""Opened entries: what is remembered is what was authentic, and never more than it may hold."""

import pytest

from gateway.layers import opened
from gateway.layers.entry import Entry, EntryError, Sealer, StoredAnswer, StoredChoice
from gateway.layers.opened import OpenedEntries


class CountingSealer(Sealer):
    """Counts what it opens."""

    opened = 0

    def open(self, stored: bytes, tenant_id: str, key: bytes) -> Entry:
        self.opened += 1
        return super().open(stored, tenant_id, key)


SEALER = CountingSealer(b"s" * 32)


@pytest.fixture
def sealer() -> CountingSealer:
    SEALER.opened = 0
    return SEALER


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def stored(number: int, text: str = "4", created_s: float = 1.0) -> bytes:
    """An entry as Redis has it."""
    choice: StoredChoice = (0, {"role": "assistant", "content": text}, "stop", None, (), {})
    answer: StoredAnswer = ("id", 1, "m", None, {})
    return SEALER.seal(
        Entry(key(number), "t1", created_s, 60.0, 0, ("m",), "", (), (), answer, (choice,), "req-1")
    )


def test_the_same_bytes_are_opened_once(sealer: CountingSealer) -> None:
    entries = OpenedEntries(sealer)
    first = entries.open(stored(1), "t1", key(1))
    assert entries.open(stored(1), "t1", key(1)) is first
    assert sealer.opened == 1


def test_other_bytes_are_proven_anew_and_take_the_place(sealer: CountingSealer) -> None:
    entries = OpenedEntries(sealer)
    entries.open(stored(1), "t1", key(1))
    newer = stored(1, "5", created_s=2.0)
    assert entries.open(newer, "t1", key(1)).life.created_s == 2.0
    with pytest.raises(EntryError, match="mac"):
        entries.open(newer[:-1] + b"?", "t1", key(1))
    with pytest.raises(EntryError, match="mac"):
        entries.open(stored(2), "t1", key(1))
    assert entries.open(newer, "t1", key(1)).life.created_s == 2.0


def test_an_entry_that_unpacks_to_much_is_not_remembered(sealer: CountingSealer) -> None:
    entries, large = OpenedEntries(sealer), stored(1, "x" * (1 << 20))
    assert len(large) < opened._MAX_ENTRY_BYTES
    for _ in range(2):
        entries.open(large, "t1", key(1))
    assert sealer.opened == 2


def test_the_oldest_makes_way(sealer: CountingSealer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "_MAX_ENTRIES", 2)
    entries = OpenedEntries(sealer)
    for number in (1, 2, 3, 3, 2, 1):
        entries.open(stored(number), "t1", key(number))
    assert sealer.opened == 4
