"""Spaces of keys: each part of a namespace matters, parts never run together, and keys outlive a release."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.keys import (
    KeySpace,
    Namespace,
    Scope,
    canonical_request,
    encode_parts,
    frame,
    merge_versions,
)
from policies.strict_json import loads

CANONICAL = canonical_request({"messages": [{"role": "user", "content": "What is 2+2?"}]})
SPACE = Namespace("tenant-1", "chat", "smollm2", Scope("tenant"), "", (("prompt", "v1"),))

PARTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ab", "", "request", "é"]), st.sampled_from([b"", b"a", b"b", b"ab", b"\0"])
    ),
    max_size=5,
)
FREE_PARTS = st.lists(st.tuples(st.text(max_size=6), st.binary(max_size=12)), max_size=5)


@given(PARTS, PARTS)
def test_parts_that_concatenate_alike_are_apart(
    one: list[tuple[str, bytes]], other: list[tuple[str, bytes]]
) -> None:
    assert (encode_parts(one) == encode_parts(other)) is (one == other)


@given(FREE_PARTS)
def test_parts_can_be_read_back_so_no_two_sequences_share_bytes(parts: list[tuple[str, bytes]]) -> None:
    raw, read = encode_parts(parts), []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        name, raw = raw[4 : 4 + size].decode(), raw[4 + size :]
        size = int.from_bytes(raw[:8], "big")
        value, raw = raw[8 : 8 + size], raw[8 + size :]
        read.append((name, value))
    assert read == parts


@given(FREE_PARTS, st.integers(0, 4), st.data())
def test_a_frame_inside_a_value_is_not_a_part(
    parts: list[tuple[str, bytes]], at: int, data: st.DataObject
) -> None:
    inner = frame(data.draw(st.text(max_size=4)), data.draw(st.binary(max_size=4)))
    at = min(at, len(parts))
    nested = [*parts[:at], ("x", inner), *parts[at:]]
    assert encode_parts(nested) != encode_parts(parts)
    assert inner + encode_parts(parts) != encode_parts([("x", inner), *parts])


LABELS = st.sampled_from(["", "a", "b", "ab", "tenant", "user", "a=b", "a:b", "scope-id", "1", "11"])
VERSIONS = st.dictionaries(LABELS, LABELS, max_size=3).map(lambda made: tuple(sorted(made.items())))
SPACES = st.builds(Namespace, LABELS, LABELS, LABELS, st.builds(Scope, LABELS, LABELS), LABELS, VERSIONS, VERSIONS)


@given(SPACES, SPACES)
def test_namespaces_share_keys_only_when_equal_in_every_part(one: Namespace, other: Namespace) -> None:
    alike = KeySpace(one).of_request(CANONICAL) == KeySpace(other).of_request(CANONICAL)
    assert alike is (one == other)


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant_id": "tenant-2"},
        {"scope": Scope("user")},
        {"scope": Scope("user", "u1")},
        {"scope": Scope("session", "u1")},
        {"scope": Scope("tenant", "u1")},
        {"partition": "a"},
        {"model": "smollm3"},
        {"route": "completions"},
        {"versions": ()},
        {"versions": (("prompt", "v2"),)},
        {"versions": (("kb", "v1"),)},
        {"versions": (("prompt", "v1"), ("kb", ""))},
        {"versions": (), "asked_versions": (("prompt", "v1"),)},
        {"asked_versions": (("prompt", "v1"),)},
        {"tenant_id": "tenant-1chat", "route": ""},
        {"model": "", "partition": "smollm2"},
        {"route": "smollm2", "model": "chat"},
    ],
)
def test_each_part_of_a_namespace_matters(changed: dict[str, Any]) -> None:
    other = replace(SPACE, **changed)
    assert KeySpace(other).of_request(CANONICAL) != KeySpace(SPACE).of_request(CANONICAL)
    assert KeySpace(other).of_caller("mine") != KeySpace(SPACE).of_caller("mine")


def test_versions_are_a_set_of_pairs_and_later_layers_win() -> None:
    pairs = (("b", "1"), ("a", "2"))
    turned = replace(SPACE, versions=pairs[::-1])
    assert KeySpace(replace(SPACE, versions=pairs)).of_request(CANONICAL) == KeySpace(turned).of_request(CANONICAL)
    assert merge_versions({"b": "1", "a": "0"}, {}, {"a": "2"}) == (("a", "2"), ("b", "1"))


@given(st.text(max_size=20), st.binary(max_size=20))
def test_a_chosen_key_never_meets_a_requests_key(chosen: str, canonical: bytes) -> None:
    space = KeySpace(SPACE)
    assert space.of_caller(chosen) != space.of_request(canonical)
    assert space.of_caller(chosen) != space.of_request(chosen.encode())
    assert space.of_caller(chosen) == KeySpace(SPACE).of_caller(chosen)


def test_a_space_may_make_many_keys_in_any_order() -> None:
    space = KeySpace(SPACE)
    first = [space.of_request(bytes([number])) for number in range(50)]
    assert [space.of_request(bytes([number])) for number in reversed(range(50))] == first[::-1]
    assert len({made.digest for made in first}) == 50
    assert all(len(made.digest) == 32 and made.hex == made.digest.hex() for made in first)


GOLDEN_BODY = (
    b'{"messages":[{"content":"Gr\xc3\xbc\xc3\x9fe \xf0\x9f\x98\x80","role":"user"}],"temperature":0,'
    b'"max_tokens":16,"zeta":{"b":1.5,"a":[true,null,"1"]},"user":"u1"}'
)
GOLDEN_CANONICAL = (
    '{"max_completion_tokens":16,"messages":[{"content":"Grüße 😀","role":"user"}],"temperature":0.0,'
    '"zeta":{"a":[true,null,"1"],"b":1.5}}'
).encode()
GOLDEN_REQUEST = "fefff1b2bee4e0d968934c8c03889310e2adc4da2822e1e5a38831f46ade357d"
GOLDEN_CALLER = "06784985e92dc42db69b5cc57bdc9c80cac1f8af1e9b6f4d97f9b1da4c77beae"


def golden_space() -> KeySpace:
    versions = (("kb", "7"), ("prompt", "v3"))
    return KeySpace(Namespace("t1", "chat", "smollm2", Scope("user", "u1"), "p", versions))


def test_keys_written_by_an_earlier_release_are_still_the_same() -> None:
    """A change here empties every cache: raise KEY_FORMAT, and say so in the change log."""
    canonical = canonical_request(loads(GOLDEN_BODY))
    assert canonical == GOLDEN_CANONICAL
    assert golden_space().of_request(canonical).hex == GOLDEN_REQUEST
    assert golden_space().of_caller("grüße").hex == GOLDEN_CALLER


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_keys_are_the_same_in_another_process(hash_seed: str) -> None:
    script = (
        "from policies.keys import KeySpace, Namespace, Scope, canonical_request\n"
        "from policies.strict_json import loads\n"
        f"body = loads({GOLDEN_BODY!r})\n"
        "versions = (('kb', '7'), ('prompt', 'v3'))\n"
        "space = KeySpace(Namespace('t1', 'chat', 'smollm2', Scope('user', 'u1'), 'p', versions))\n"
        "print(space.of_request(canonical_request(body)).hex)\n"
    )
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30, env=environment
    )
    assert done.stdout.strip() == GOLDEN_REQUEST
