"""Encryption at rest: what is sealed opens under its key and at its place, and nowhere and never else."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.encryption import (
    FRESH_BYTES,
    OVERHEAD_BYTES,
    DataKey,
    UnsealError,
    chunk_key,
    context,
    field_key,
    id_of,
    master_key,
    master_keys,
    open_chunk,
    open_field,
    open_sealed,
    question_place,
    seal,
    seal_chunk,
    seal_field,
    tag_of,
    unwrap,
    vector_place,
    wrap,
)

KEY = hashlib.sha256(b"key").digest()
OTHER = hashlib.sha256(b"other").digest()
FRESH = bytes(range(FRESH_BYTES))
MASTER, OLD = master_key("m" * 32), master_key("o" * 32)
DATA_KEY = DataKey("D00112233445566FF", KEY)
PLACE = context("entry", "t1")


@given(st.binary(max_size=200), st.binary(min_size=28, max_size=28), st.binary(max_size=40))
def test_a_value_comes_back_at_its_place(plain: bytes, fresh: bytes, place: bytes) -> None:
    sealed = seal(KEY, place, plain, fresh)
    assert open_sealed(KEY, place, sealed) == plain
    assert len(sealed) == len(plain) + OVERHEAD_BYTES


@given(st.data())
def test_no_changed_byte_and_no_other_length_opens(data: st.DataObject) -> None:
    sealed = seal(KEY, PLACE, data.draw(st.binary(max_size=64)), FRESH)
    at = data.draw(st.integers(0, len(sealed) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = sealed[:at] + bytes([sealed[at] ^ flip]) + sealed[at + 1 :]
    for other in (changed, sealed[:at], sealed + sealed[at:], sealed[at:] + sealed[:at] + b"\x00"):
        with pytest.raises(UnsealError):
            open_sealed(KEY, PLACE, other)


def test_another_key_or_place_does_not_open() -> None:
    sealed = seal(KEY, PLACE, b"text", FRESH)
    for key, place in ((OTHER, PLACE), (KEY, context("entry", "t2")), (KEY, context("entryt", "1"))):
        with pytest.raises(UnsealError):
            open_sealed(key, place, sealed)


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_no_two_places_look_alike(one: list[bytes], other: list[bytes]) -> None:
    assert (context(*one) == context(*other)) is (one == other)


def test_a_data_key_is_unwrapped_for_its_tenant_and_id_alone() -> None:
    wrapped = wrap(MASTER, "t1", DATA_KEY, FRESH)
    assert KEY not in wrapped
    assert unwrap(MASTER, "t1", DATA_KEY.key_id, wrapped) == DATA_KEY
    cases = ((OLD, "t1", DATA_KEY.key_id), (MASTER, "t2", DATA_KEY.key_id), (MASTER, "t1", "D" + "0" * 16))
    for master, tenant_id, key_id in cases:
        with pytest.raises(UnsealError):
            unwrap(master, tenant_id, key_id, wrapped)
    with pytest.raises(UnsealError):
        unwrap(MASTER, "t1", "D1", seal(MASTER.wrapping, context("data-key", "t1", "D1"), b"short", FRESH))


def test_master_keys_are_lines_the_first_in_use() -> None:
    keys = master_keys(f"\n {'m' * 32} \n{'o' * 32}\n")
    assert keys.current == MASTER
    assert keys.find(OLD.key_id) == OLD
    assert keys.find("0" * 16) is None
    assert "m" * 8 not in repr(keys)
    assert repr(MASTER.wrapping) not in repr(MASTER)
    for text in ("", "\n", "m" * 31, f"{'m' * 32}\nshort"):
        with pytest.raises(ValueError, match="32 characters"):
            master_keys(text)


def test_ids_and_tags_are_two_forms_of_one_thing() -> None:
    assert id_of(tag_of(DATA_KEY.key_id)) == DATA_KEY.key_id
    assert len(DATA_KEY.tag) == 8
    assert repr(KEY) not in repr(DATA_KEY)


def test_a_field_says_its_key_and_opens_at_its_place() -> None:
    place = question_place("t1", b"f" * 32, b"p" * 32)
    stored = seal_field(DATA_KEY, place, b"question", FRESH)
    assert field_key(stored) == DATA_KEY.key_id
    assert open_field(DATA_KEY, place, stored) == b"question"
    for key, other in (
        (DataKey(DATA_KEY.key_id, OTHER), place),
        (DataKey("D" + "0" * 16, KEY), place),
        (DATA_KEY, question_place("t2", b"f" * 32, b"p" * 32)),
        (DATA_KEY, question_place("t1", b"p" * 32, b"f" * 32)),
        (DATA_KEY, vector_place("t1", 1, "m")),
    ):
        with pytest.raises(UnsealError):
            open_field(key, other, stored)


def test_what_is_not_sealed_has_no_key() -> None:
    for plain in (b"", b"\x92\x91", b"\xc1E", b"\xc1E1short"):
        assert field_key(plain) is None


def test_chunks_of_a_file_keep_their_number_and_file() -> None:
    file_key = chunk_key(MASTER, b"s" * 16)
    sealed = [seal_chunk(file_key, number, b"vectors") for number in range(3)]
    assert len(set(sealed)) == 3
    assert open_chunk(file_key, 1, sealed[1]) == b"vectors"
    for key, number, value in (
        (file_key, 0, sealed[1]),
        (chunk_key(MASTER, b"t" * 16), 1, sealed[1]),
        (file_key, 1, sealed[1][:-1]),
    ):
        with pytest.raises(UnsealError):
            open_chunk(key, number, value)
