"""Encrypted entries: nothing of them is readable, and whatever is not exactly what was stored is no answer."""

import dataclasses
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.layers.entry import Entry, EntryError, Sealer, plain_bytes
from gateway.layers.keyring import Keyring
from gateway.layers.opened import OpenedEntries
from policies.encryption import MasterKeys, master_key, question_place, wrap
from policies.types import ChatResponse
from tests.gateway.layers.keys import MASTER, keyring, record
from tests.gateway.layers.test_entry import KEY, LONG, SECRET, SHORT, entry

RING = keyring()
SEALER = Sealer(SECRET, RING)
PLAIN = Sealer(SECRET)
OTHER_KEY = hashlib.sha256(b"other").digest()
BOTH = pytest.mark.parametrize("response", [SHORT, LONG], ids=["plain", "packed"])


def refused(stored: bytes, tenant_id: str = "t1", key: bytes = KEY, sealer: Sealer = SEALER) -> str:
    with pytest.raises(EntryError) as caught:
        sealer.open(stored, tenant_id, key)
    return caught.value.reason


def canary(text: str) -> Entry:
    return entry(replace(SHORT, id=text), user=text)


@BOTH
def test_an_entry_comes_back_and_says_its_size(response: ChatResponse) -> None:
    made = entry(response)
    stored = SEALER.seal(made)
    assert SEALER.open(stored, "t1", KEY) == made
    assert plain_bytes(stored) == plain_bytes(PLAIN.seal(made))
    assert stored[3:4] == (b"\x03" if response is LONG else b"\x02")


def test_nothing_of_it_is_readable_and_no_two_are_alike() -> None:
    stored = {SEALER.seal(canary("canary-text")) for _ in range(50)}
    assert len(stored) == 50
    assert not any(b"canary" in one or KEY in one for one in stored)


@BOTH
def test_every_flipped_byte_is_noticed(response: ChatResponse) -> None:
    stored = SEALER.seal(entry(response))
    reasons = set()
    for position in range(len(stored)):
        for bits in (0x01, 0x80, 0xFF):
            changed = bytearray(stored)
            changed[position] ^= bits
            reasons.add(refused(bytes(changed)))
    assert reasons == {"format", "mac", "no_key", "decrypt"}


@given(st.data())
def test_any_change_is_a_miss(data: st.DataObject) -> None:
    stored = SEALER.seal(entry())
    at, end = sorted((data.draw(st.integers(0, len(stored))), data.draw(st.integers(0, len(stored)))))
    changed = stored[:at] + data.draw(st.binary(max_size=end - at + 2)) + stored[end:]
    if changed != stored:
        assert refused(changed) in ("format", "mac", "no_key", "decrypt")


def test_it_opens_for_its_own_tenant_and_key_alone() -> None:
    one, other = SEALER.seal(entry()), SEALER.seal(entry(key=OTHER_KEY))
    foreign = SEALER.seal(entry(tenant_id="t2"))
    assert refused(one, key=OTHER_KEY) == refused(other) == "decrypt"
    assert refused(one, tenant_id="t2") == refused(foreign) == "no_key"
    tag = slice(4, 12)
    assert refused(one[:4] + foreign[tag] + one[12:], tenant_id="t2") == "decrypt"
    assert refused(one[:40] + other[40:]) == "decrypt"


def test_tenants_that_share_a_key_by_mistake_still_cannot_read_each_other() -> None:
    ring = keyring(())
    shared = record(ring, "t1")
    ring.take("t1", [shared])
    data_key = ring.of("t1").current
    assert data_key is not None
    again = wrap(MASTER, "t2", data_key, bytes(28))
    ring.take("t2", [dataclasses.replace(shared, tenant_id="t2", wrapped=again)])
    sealer = Sealer(SECRET, ring)
    assert refused(sealer.seal(entry()), tenant_id="t2", sealer=sealer) == "decrypt"


def test_plain_entries_open_only_where_that_is_allowed() -> None:
    stored = PLAIN.seal(entry())
    assert SEALER.open(stored, "t1", KEY) == entry()
    assert refused(stored, sealer=Sealer(SECRET, RING, read_plain=False)) == "plain"
    assert refused(SEALER.seal(entry()), sealer=PLAIN) == "no_key"
    assert Sealer(SECRET, read_plain=False).open(stored, "t1", KEY) == entry()


def test_without_a_data_key_nothing_is_stored_in_the_clear() -> None:
    sealer = Sealer(SECRET, Keyring(MasterKeys(MASTER)))
    with pytest.raises(EntryError, match="no_key"):
        sealer.seal(entry())
    with pytest.raises(EntryError, match="no_key"):
        sealer.seal_field("t1", b"", b"text")


def test_a_retired_key_still_opens_and_a_destroyed_one_does_not() -> None:
    ring = keyring(())
    first, second = record(ring, "t1"), record(ring, "t1", 2.0)
    ring.take("t1", [first])
    sealer, opened = Sealer(SECRET, ring), OpenedEntries(Sealer(SECRET, ring))
    stored = sealer.seal(entry())
    opened.open(stored, "t1", KEY)
    ring.take("t1", [dataclasses.replace(first, retired_at=2.0), second])
    assert sealer.open(stored, "t1", KEY) == entry()
    assert sealer.seal(entry())[4:12] != stored[4:12]
    gone = dataclasses.replace(first, retired_at=2.0, destroyed_at=3.0, wrapped=None)
    ring.take("t1", [gone, second])
    assert refused(stored, sealer=sealer) == "no_key"
    with pytest.raises(EntryError, match="no_key"):
        opened.open(stored, "t1", KEY)


def test_a_key_that_no_master_key_opens_is_counted_and_not_used() -> None:
    ring = keyring(())
    other = Keyring(MasterKeys(master_key("z" * 32)))
    ring.take("t1", [record(other, "t1")])
    assert ring.of("t1").current is None
    assert ring.unopened == 1
    both = Keyring(MasterKeys(MASTER, (other.masters.current,)))
    both.take("t1", [record(other, "t1")])
    assert both.of("t1").current is not None


def test_a_column_is_sealed_for_its_place() -> None:
    place = question_place("t1", b"f" * 32, b"p" * 32)
    stored = SEALER.seal_field("t1", place, b"canary")
    assert b"canary" not in stored
    assert SEALER.open_field("t1", place, stored) == b"canary"
    assert SEALER.open_field("t1", place, b"\x91plain") == b"\x91plain"
    assert PLAIN.seal_field("t1", place, b"canary") == b"canary"
    for tenant_id, where, reason in (("t2", place, "no_key"), ("t1", b"", "decrypt")):
        with pytest.raises(EntryError, match=reason):
            SEALER.open_field(tenant_id, where, stored)


def test_what_was_asked_cannot_be_tried_without_the_secret() -> None:
    text = "a question"
    assert PLAIN.asked("t1", text) == hashlib.sha256(text.encode()).digest()
    digests = {SEALER.asked("t1", text), SEALER.asked("t2", text), Sealer(b"z" * 32, RING).asked("t1", text)}
    assert len({*digests, PLAIN.asked("t1", text)}) == 4
