"""Stored values: sealed and opened they are the same; whatever else Redis holds is an EntryError with a reason."""

import gzip
import hashlib
import hmac
import pickle
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.layers.entry import MAGIC, Entry, EntryError, Sealer, answer_of, choices_of, derive
from policies.purge_scopes import person
from policies.types import ChatResponse, Choice

SECRET = b"s" * 32
KEY = hashlib.sha256(b"key").digest()
SEALER = Sealer(SECRET)
SHORT = ChatResponse(
    "chatcmpl-1", 1_700_000_000, "smollm2", (Choice(0, {"role": "assistant", "content": "4"}, "stop"),)
)
LONG = replace(SHORT, choices=(Choice(0, {"role": "assistant", "content": "word " * 4000}, "stop"),))


def entry(response: ChatResponse = SHORT, key: bytes = KEY, tenant_id: str = "t1", **changed: Any) -> Entry:
    made = Entry(
        key=key,
        tenant_id=tenant_id,
        created_s=1_700_000_000.25,
        ttl_s=3600.0,
        as_of=7,
        models=("smollm2", "m"),
        user="u1",
        tags=("a",),
        versions=(("kb", "7"),),
        answer=answer_of(response),
        choices=choices_of(response),
        request_id="req-1",
    )
    return msgspec.structs.replace(made, **changed)


def forged(payload: bytes, flags: bytes, key: bytes = KEY, tenant_id: str = "t1") -> bytes:
    """What somebody who knows the secret can write."""
    mac = hmac.digest(derive(SECRET, "entry", tenant_id), flags + key + payload, hashlib.sha256)
    return MAGIC + flags + mac + payload


def refused(stored: bytes, tenant_id: str = "t1", key: bytes = KEY, sealer: Sealer = SEALER) -> str:
    with pytest.raises(EntryError) as caught:
        sealer.open(stored, tenant_id, key)
    assert caught.value.reason == str(caught.value)
    return caught.value.reason


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=4)
CHOICES = st.builds(
    Choice,
    index=st.integers(0, 128),
    message=OBJECTS,
    finish_reason=st.none() | st.text(max_size=8),
    logprobs=st.none() | OBJECTS,
    pieces=st.lists(st.integers(0, 2**31), max_size=5).map(tuple),
    extra=OBJECTS,
)
RESPONSES = st.builds(
    ChatResponse,
    id=st.text(max_size=20),
    created=st.integers(0, 2**40),
    model=st.text(max_size=20),
    choices=st.lists(CHOICES, max_size=3).map(tuple),
    usage=st.none() | OBJECTS,
    extra=OBJECTS,
)


@pytest.mark.slow
@given(RESPONSES, st.binary(min_size=32, max_size=32), st.text(max_size=20))
def test_an_answer_comes_back_as_it_was(response: ChatResponse, key: bytes, tenant_id: str) -> None:
    made = entry(response, key, tenant_id)
    opened = SEALER.open(SEALER.seal(made), tenant_id, key)
    assert opened == made
    assert opened.response() == response


@pytest.mark.parametrize("response", [SHORT, LONG], ids=["plain", "packed"])
def test_another_process_with_the_same_secret_opens_it(response: ChatResponse) -> None:
    stored = SEALER.seal(entry(response))
    assert Sealer(SECRET).open(stored, "t1", KEY).response() == response
    assert stored[3:4] == (b"\x01" if response is LONG else b"\x00")
    assert len(stored) < 20_000


def test_a_purge_can_name_what_it_is_made_of() -> None:
    made = entry().made()
    assert (made.key_hex, made.models, made.whose) == (KEY.hex(), ("smollm2", "m"), (person("user", "u1"),))
    assert (made.tags, made.versions, made.route) == (("a",), (("kb", "7"),), "")
    assert made.created_s == entry().created_s
    whose = person("session", "s"), person("user", "u2")
    newer = entry(whose=whose, route="m").made()
    assert (newer.whose, newer.route) == (whose, "m")


def test_an_entry_of_an_older_version_is_read() -> None:
    made = entry()
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(made))[: -len(("whose", "route"))]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=Entry) == made


@pytest.mark.parametrize("response", [SHORT, LONG], ids=["plain", "packed"])
def test_every_flipped_byte_is_noticed(response: ChatResponse) -> None:
    stored = SEALER.seal(entry(response))
    for position in range(len(stored)):
        for bits in (0x01, 0x80, 0xFF):
            changed = bytearray(stored)
            changed[position] ^= bits
            assert refused(bytes(changed)) == ("format" if position < len(MAGIC) else "mac")


@pytest.mark.parametrize("response", [SHORT, LONG], ids=["plain", "packed"])
def test_every_length_but_its_own_is_noticed(response: ChatResponse) -> None:
    stored = SEALER.seal(entry(response))
    for length in range(len(stored)):
        assert refused(stored[:length]) in ("format", "mac")
    for more in (b"\x00", b"\xc0", stored):
        assert refused(stored + more) == "mac"


def test_another_tenants_key_or_secret_does_not_open_it() -> None:
    stored = SEALER.seal(entry())
    assert refused(stored, tenant_id="t2") == "mac"
    assert refused(stored, key=hashlib.sha256(b"other").digest()) == "mac"
    assert refused(stored, sealer=Sealer(b"z" * 32)) == "mac"


def test_swapped_values_are_noticed() -> None:
    other_key = hashlib.sha256(b"other").digest()
    one, other = SEALER.seal(entry()), SEALER.seal(entry(key=other_key))
    assert refused(other) == refused(one, key=other_key) == "mac"
    assert refused(one[:36] + other[36:]) == "mac"
    payload = msgspec.msgpack.encode(entry(key=other_key))
    assert refused(forged(payload, b"\x00")) == "swapped"
    payload = msgspec.msgpack.encode(entry(tenant_id="t2"))
    assert refused(forged(payload, b"\x00")) == "swapped"


def test_tenants_whose_names_run_together_have_keys_of_their_own() -> None:
    names = ["t", "t1", "t11", "1:t", "", ":", "1:1:t", "entry", "é", "e\u0301"]
    made = {derive(SECRET, purpose, name) for purpose in ("entry", "engine-salt") for name in names}
    assert len(made) == 2 * len(names)
    assert all(len(one) == 32 for one in made)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"LM1",
        b"LM0" + bytes(100),
        b"LM2" + bytes(100),
        pickle.dumps({"a": 1}),
        b"\x80\x04cos\nsystem\n(S'true'\ntR." + bytes(40),
        gzip.compress(b"a" * 1000, mtime=0),
        zstandard.compress(b"a" * 1000),
        b'{"choices":[]}' * 10,
        b"\x00" * 100,
        b"WRONGTYPE Operation against a key holding the wrong kind of value",
    ],
)
def test_what_others_wrote_is_of_another_format(stored: bytes) -> None:
    assert refused(stored) == "format"


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_reason(tail: bytes) -> None:
    assert refused(tail) == "format" or tail.startswith(MAGIC)
    assert refused(MAGIC + tail) in ("format", "mac", "no_key")


UNPACKED = msgspec.msgpack.encode(entry())
AS_LIST: list[Any] = msgspec.msgpack.decode(UNPACKED)


@pytest.mark.parametrize(
    ("payload", "flags", "reason"),
    [
        (b"", b"\x00", "decode"),
        (b"\xc1", b"\x00", "decode"),
        (UNPACKED[:-1], b"\x00", "decode"),
        (UNPACKED + b"\xc0", b"\x00", "decode"),
        (msgspec.msgpack.encode(AS_LIST[:11]), b"\x00", "decode"),
        (msgspec.msgpack.encode([bytes(31), *AS_LIST[1:]]), b"\x00", "swapped"),
        (msgspec.msgpack.encode(["t1", *AS_LIST[1:]]), b"\x00", "decode"),
        (msgspec.msgpack.encode([*AS_LIST[:2], "now", *AS_LIST[3:]]), b"\x00", "decode"),
        (msgspec.msgpack.encode({"key": KEY, "tenant_id": "t1"}), b"\x00", "decode"),
        (b"\x91" * 100_000 + b"\xc0", b"\x00", "decode"),
        (pickle.dumps(AS_LIST), b"\x00", "decode"),
        (UNPACKED, b"\x01", "decode"),
        (zstandard.compress(UNPACKED)[:-1], b"\x01", "decode"),
        (zstandard.compress(b""), b"\x01", "decode"),
        (gzip.compress(UNPACKED, mtime=0), b"\x01", "decode"),
        (zstandard.compress(UNPACKED), b"\x02", "no_key"),
        (zstandard.compress(bytes(65 << 20)), b"\x01", "size"),
        (b"\x28\xb5\x2f\xfd\xe0" + (1 << 50).to_bytes(8, "little") + b"\x01\x00\x00", b"\x01", "size"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(bytes(65 << 20)), b"\x01", "decode"),
    ],
)
def test_an_authentic_value_that_is_no_entry_is_refused_too(payload: bytes, flags: bytes, reason: str) -> None:
    assert refused(forged(payload, flags)) == reason


def test_a_deeply_nested_answer_is_refused_on_the_way_out_at_the_latest() -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"a": deep}
    response = replace(SHORT, extra=deep)
    assert SEALER.open(SEALER.seal(entry(response)), "t1", KEY).response() == response


@settings(max_examples=30)
@given(st.binary(min_size=1, max_size=60), st.sampled_from([b"\x00", b"\x01", b"\x02"]))
def test_any_authentic_payload_is_refused_with_a_reason(payload: bytes, flags: bytes) -> None:
    assert refused(forged(payload, flags)) in ("decode", "size", "swapped", "no_key")
