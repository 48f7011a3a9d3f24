"""Controls: what a request may ask of the cache, in RFC 9111's words, ours, and those of other products."""

import contextlib
import math
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.control_headers import HEADERS, parse_duration_s
from policies.controls import (
    NO_CONTROLS,
    ControlError,
    Controls,
    partitioning_only,
    read_controls,
    strip_controls,
)
from policies.keys import Scope
from policies.types import Json


def read(*headers: tuple[str, str | bytes], body: Json | None = None) -> Controls:
    raw = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    return read_controls(raw, body or {})


def asked(**found: Any) -> Controls:
    return Controls(**found)


def test_a_plain_request_asks_nothing() -> None:
    assert read(("content-type", "application/json"), ("authorization", "Bearer x")) is NO_CONTROLS
    assert read(body={"messages": []}) is NO_CONTROLS
    assert Controls() == NO_CONTROLS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("no-cache", asked(no_read=True)),
        ("NO-CACHE", asked(no_read=True)),
        ("no-store", asked(no_write=True)),
        ("no-cache, no-store", asked(no_read=True, no_write=True)),
        ("no-cache,no-store", asked(no_read=True, no_write=True)),
        ("only-if-cached", asked(only_if_cached=True)),
        ("max-age=0", asked(max_age_s=0.0, no_read=True)),
        ("max-age=60", asked(max_age_s=60.0)),
        ('max-age="60"', asked(max_age_s=60.0)),
        ("max-age = 60", asked(max_age_s=60.0)),
        ("MAX-AGE=60", asked(max_age_s=60.0)),
        ("max-age=99999999999999999999", asked(max_age_s=9999999999.0)),
        ("min-fresh=5", asked(min_fresh_s=5.0)),
        ("max-stale", asked(max_stale_s=math.inf)),
        ("max-stale=5", asked(max_stale_s=5.0)),
        ("max-stale=", asked(max_stale_s=math.inf)),
        ("max-age=5, max-stale=6, min-fresh=7", asked(max_age_s=5.0, max_stale_s=6.0, min_fresh_s=7.0)),
        ("", asked()),
        (",,, ,", asked()),
        ("public, private, immutable, x=y", asked()),
        ("max-age", asked()),
        ("max-age=", asked()),
        ("max-age=-1", asked()),
        ("max-age=1.5", asked()),
        ("max-age=five", asked()),
        ("max-age=\u0661", asked()),
        ("min-fresh", asked()),
        ("no-cache=x", asked(no_read=True)),
        ("xno-cache", asked()),
    ],
)
def test_cache_control_as_rfc_9111_has_it(value: str, expected: Controls) -> None:
    assert read(("cache-control", value)) == expected


def test_several_cache_control_lines_are_one_list() -> None:
    assert read(("cache-control", "no-cache"), ("cache-control", "no-store")) == asked(no_read=True, no_write=True)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("x-lamina-cache-ttl", "3600", asked(ttl_s=3600.0)),
        ("x-lamina-cache-ttl", "500ms", asked(ttl_s=0.5)),
        ("x-lamina-cache-ttl", " 5M ", asked(ttl_s=300.0)),
        ("x-lamina-cache-ttl", "2h", asked(ttl_s=7200.0)),
        ("x-lamina-cache-ttl", "1d", asked(ttl_s=86400.0)),
        ("x-lamina-cache-ttl", "0", asked(ttl_s=0.0, no_write=True)),
        ("x-lamina-cache-mode", "off", asked(mode="off")),
        ("x-lamina-cache-mode", "Exact", asked(mode="exact")),
        ("x-lamina-cache-mode", "auto", asked()),
        ("x-lamina-cache-mode", "semantic", asked()),
        ("x-lamina-cache-namespace", "team a", asked(partition="team a")),
        ("x-lamina-cache-key", "k1", asked(caller_key="k1")),
        ("x-lamina-cache-groups", '"a", "b"', asked(tags=("a", "b"))),
        ("x-lamina-cache-groups", "a b,c", asked(tags=("a", "b", "c"))),
        ("x-lamina-cache-groups", '"a b", "a b", c', asked(tags=("a b", "c"))),
        ("x-lamina-cache-groups", r'"say \"hi\" \\ now"', asked(tags=('say "hi" \\ now',))),
        ("x-lamina-cache-groups", "Größe", asked(tags=("Größe",))),
        ("x-lamina-cache-groups", "", asked()),
        ("x-lamina-cache-scope", "tenant", asked()),
        ("x-lamina-versions", "prompt=v3, kb=7", asked(versions=(("kb", "7"), ("prompt", "v3")))),
        ("x-lamina-versions", 'a="b c"', asked(versions=(("a", "b c"),))),
        ("x-lamina-versions", "a=b=c", asked(versions=(("a", "b=c"),))),
        ("surrogate-key", "a b", asked(tags=("a", "b"))),
        ("cache-tag", "a,b", asked(tags=("a", "b"))),
        ("cf-aig-cache-ttl", "60", asked(ttl_s=60.0, vendors=("cloudflare",))),
        ("cf-cache-ttl", "60", asked(ttl_s=60.0, vendors=("cloudflare",))),
        ("cf-aig-skip-cache", "true", asked(no_read=True, no_write=True, vendors=("cloudflare",))),
        ("cf-skip-cache", "1", asked(no_read=True, no_write=True, vendors=("cloudflare",))),
        ("cf-aig-skip-cache", "false", asked()),
        ("cf-aig-cache-key", "k", asked(caller_key="k", vendors=("cloudflare",))),
        ("x-openrouter-cache-ttl", "60", asked(ttl_s=60.0, vendors=("openrouter",))),
        ("x-openrouter-cache-clear", "true", asked(no_read=True, vendors=("openrouter",))),
        ("x-openrouter-cache", "false", asked(no_read=True, no_write=True, vendors=("openrouter",))),
        ("x-openrouter-cache", "true", asked(vendors=("openrouter",))),
        ("x-bf-cache-ttl", "5m", asked(ttl_s=300.0)),
        ("x-bf-cache-type", "direct", asked(mode="exact")),
        ("x-bf-cache-key", "p", asked(partition="p")),
        ("x-bf-cache-no-store", "true", asked(no_write=True)),
        ("x-higress-skip-ai-cache", "on", asked(no_read=True, no_write=True)),
        ("x-portkey-cache-force-refresh", "True", asked(no_read=True, vendors=("portkey",))),
        ("x-portkey-cache-namespace", "p", asked(partition="p", vendors=("portkey",))),
        ("helicone-cache-enabled", "false", asked(no_read=True, no_write=True, vendors=("helicone",))),
        ("helicone-cache-enabled", "true", asked(vendors=("helicone",))),
        ("helicone-cache-seed", "s", asked(partition="s", vendors=("helicone",))),
    ],
)
def test_each_header_alone(name: str, value: str, expected: Controls) -> None:
    assert read((name, value)) == expected


def test_max_age_is_a_life_only_for_those_who_come_from_helicone() -> None:
    both = (("helicone-cache-enabled", "true"), ("cache-control", "max-age=60"))
    assert read(*both) == read(*both[::-1]) == asked(ttl_s=60.0, vendors=("helicone",))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"cache":{"max_age":-1}}',
        '{"cache":{"max_age":true}}',
        '{"cache":1}',
        '{"cache":{"mode":7}}',
        "[" * 5000,
    ],
)
def test_a_portkey_config_that_says_nothing_of_caching(value: str) -> None:
    assert read(("x-portkey-config", value)) == asked(vendors=("portkey",))


def test_a_portkey_config_that_does() -> None:
    config = '{"cache":{"mode":"simple","max_age":60}}'
    assert read(("x-portkey-config", config)) == asked(mode="exact", max_age_s=60.0, vendors=("portkey",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-lamina-cache-ttl", ""),
        ("x-lamina-cache-ttl", "-1"),
        ("x-lamina-cache-ttl", "1.5"),
        ("x-lamina-cache-ttl", "1w"),
        ("x-lamina-cache-ttl", "1 h"),
        ("x-lamina-cache-ttl", "12345678901"),
        ("x-lamina-cache-ttl", "\u0661"),
        ("cf-aig-cache-ttl", "soon"),
        ("x-lamina-cache-mode", "on"),
        ("x-lamina-cache-mode", ""),
        ("x-lamina-cache-namespace", ""),
        ("x-lamina-cache-namespace", "a" * 257),
        ("x-lamina-cache-key", "a\x00b"),
        ("x-lamina-cache-key", "a\u200bb"),
        ("x-lamina-cache-groups", '""'),
        ("x-lamina-cache-groups", "a" * 257),
        ("x-lamina-cache-groups", " ".join(f"t{number}" for number in range(33))),
        ("x-lamina-cache-scope", "world"),
        ("x-lamina-cache-scope", "user"),
        ("x-lamina-cache-scope", "session"),
        ("x-lamina-versions", "a"),
        ("x-lamina-versions", ""),
        ("x-lamina-versions", "=1"),
        ("x-lamina-versions", "a="),
        ("x-lamina-versions", "a=1,a=2"),
        ("x-lamina-user", ""),
    ],
)
def test_a_control_that_cannot_be_understood_names_its_header(name: str, value: str) -> None:
    with pytest.raises(ControlError) as caught:
        read((name, value))
    assert caught.value.name in (name, "x-lamina-cache-groups", "x-lamina-cache-scope")
    assert str(caught.value).startswith(caught.value.name)


@pytest.mark.parametrize(
    ("headers", "body", "scope"),
    [
        ([("x-lamina-user", "u1")], {}, Scope("user", "u1")),
        ([], {"user": "u1"}, Scope("user", "u1")),
        ([], {"safety_identifier": "s1", "user": "u1"}, Scope("user", "s1")),
        ([("x-lamina-user", "h1")], {"safety_identifier": "s1", "user": "u1"}, Scope("user", "h1")),
        ([("x-lamina-user", "Zoë")], {}, Scope("user", "Zoë")),
        ([], {"user": "Zoë"}, Scope("user", "Zoë")),
    ],
)
def test_who_the_user_is(headers: list[tuple[str, str]], body: Json, scope: Scope) -> None:
    assert read(("x-lamina-cache-scope", "user"), *headers, body=body).scope == scope
    assert read(*headers, ("x-lamina-cache-scope", "USER"), body=body).scope == scope


@pytest.mark.parametrize("kind", ["session", "conversation"])
def test_other_scopes_take_their_own_header_alone(kind: str) -> None:
    given = (f"x-lamina-{kind}", "i1")
    assert read(("x-lamina-cache-scope", kind), given).scope == Scope(kind, "i1")
    with pytest.raises(ControlError):
        read(("x-lamina-cache-scope", kind), ("x-lamina-user", "u1"), body={"user": "u1", kind: "i1"})


def test_an_identity_without_a_scope_asks_for_nothing() -> None:
    assert read(("x-lamina-user", "u1"), body={"user": "u1"}) == Controls(ids=(("user", "u1"),))
    assert read(body={"user": "u1"}) is NO_CONTROLS


@pytest.mark.parametrize("user", [None, 1, True, [], {}, ""])
def test_a_user_field_that_is_no_name_does_not_share_answers(user: Any) -> None:
    with pytest.raises(ControlError):
        read(("x-lamina-cache-scope", "user"), body={"user": user})


def test_bytes_that_are_not_utf_8_are_still_a_label() -> None:
    assert read(("x-lamina-cache-groups", b"Gr\xf6\xdfe")) == asked(tags=("Größe",))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"cache": {"no-cache": True}}, asked(no_read=True)),
        ({"cache": {"no-store": True}}, asked(no_write=True)),
        ({"cache": {"no-cache": 1, "no-store": "true"}}, asked()),
        ({"cache": {"ttl": 60}}, asked(ttl_s=60.0)),
        ({"cache": {"ttl": 0}}, asked(ttl_s=0.0, no_write=True)),
        ({"cache": {"ttl": 0.5}}, asked(ttl_s=0.5)),
        ({"cache": {"ttl": -1}}, asked()),
        ({"cache": {"ttl": True}}, asked()),
        ({"cache": {"ttl": "60"}}, asked()),
        ({"cache": {"s-maxage": 60}}, asked(max_age_s=60.0)),
        ({"cache": {"s-max-age": 0}}, asked(max_age_s=0.0, no_read=True)),
        ({"cache": {"namespace": "n"}}, asked(partition="n")),
        ({"cache": {"namespace": 7}}, asked()),
        ({"cache": None}, asked()),
        ({"cache": []}, asked()),
        ({"tensorzero::cache_options": {"enabled": "on", "max_age_s": 60}}, asked(max_age_s=60.0)),
        ({"tensorzero::cache_options": {"enabled": "off"}}, asked(no_read=True, no_write=True)),
        ({"tensorzero::cache_options": {"enabled": "write_only"}}, asked(no_read=True)),
        ({"tensorzero::cache_options": {"enabled": "read_only"}}, asked(no_write=True)),
        ({"tensorzero::cache_options": {"enabled": []}}, asked()),
    ],
)
def test_controls_in_the_body(body: Json, expected: Controls) -> None:
    assert read(body=body) == expected


def test_controls_are_taken_out_of_what_is_keyed_and_forwarded() -> None:
    body = {"a": {"cache": 1}, "cache": {"ttl": 1}, "tensorzero::cache_options": {}, "b": 2}
    assert strip_controls(body) == {"a": {"cache": 1}, "b": 2}
    assert len(body) == 4
    plain = {"a": 1}
    assert strip_controls(plain) is plain


def test_without_honour_only_what_narrows_sharing_is_left() -> None:
    everything = Controls(
        no_read=True,
        no_write=True,
        only_if_cached=True,
        max_age_s=1.0,
        min_fresh_s=1.0,
        max_stale_s=1.0,
        ttl_s=1.0,
        mode="off",
        partition="p",
        caller_key="k",
        tags=("t",),
        scope=Scope("user", "u"),
        versions=(("a", "1"),),
        ids=(("session", "s"),),
        vendors=("portkey",),
    )
    kept = Controls(partition="p", caller_key="k", tags=("t",), ids=(("session", "s"),))
    assert partitioning_only(everything) == replace(kept, scope=Scope("user", "u"), versions=(("a", "1"),))


@given(
    st.integers(0, 10**10 - 1), st.sampled_from([("", 1.0), ("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)])
)
def test_durations(number: int, unit: tuple[str, float]) -> None:
    assert parse_duration_s("x", f"{number}{unit[0]}") == number * unit[1]


HEADER_NAMES = st.sampled_from([name.decode() for name in HEADERS])
HEADER_VALUES = st.text(max_size=30).map(str.encode) | st.binary(max_size=30)


@given(st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=4))
def test_any_value_of_any_header_is_read_or_refused_by_name(headers: list[tuple[str, bytes]]) -> None:
    try:
        controls = read(*headers)
    except ControlError as error:
        controls = Controls(partition=error.name)
    for label in (*controls.tags, controls.partition or "x", controls.caller_key or "x"):
        assert 1 <= len(label) <= 256
        assert label.isprintable()
    assert len(controls.tags) <= 32
    for seconds in (controls.ttl_s, controls.max_age_s, controls.min_fresh_s, controls.max_stale_s):
        assert seconds is None or seconds >= 0


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["off", "n"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ttl", "no-cache", "namespace", "enabled", "max_age_s", "s-maxage"]), inner
        )
    ),
    max_leaves=6,
)


@given(TREES, TREES)
def test_any_body_is_read_or_refused(cache: Any, options: Any) -> None:
    with contextlib.suppress(ControlError):
        read(body={"cache": cache, "tensorzero::cache_options": options})


@pytest.mark.parametrize("value", [b'"' + b'\\"' * 16_000, b'"' * 32_000, b"," * 32_000, b"\\" * 32_000])
@pytest.mark.parametrize("name", ["x-lamina-cache-groups", "x-lamina-versions", "cache-control"])
def test_long_values_meant_to_hurt_are_read_in_linear_time(name: str, value: bytes) -> None:
    began = time.perf_counter()
    with contextlib.suppress(ControlError):
        read((name, value))
    assert time.perf_counter() - began < 0.5
