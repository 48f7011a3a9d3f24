"""The key: everything that can change an answer is in it, and no two meanings share one."""

import copy
import unicodedata
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.keys import NOT_KEYED, KeySpace, Namespace, Scope, canonical_request
from policies.strict_json import loads
from policies.types import Json
from tests.policies.chat_fields import CHAT_FIELDS, FIELDS, NULL_IS_ABSENT, OPERATIONAL

BODY: Json = {"messages": [{"role": "user", "content": "What is 2+2?"}]}
SPACE = Namespace("tenant-1", "chat", "smollm2", Scope("tenant"), "", (("prompt", "v1"),))


def key(body: Json, space: Namespace = SPACE) -> bytes:
    return KeySpace(space).of_request(canonical_request(body)).digest


def test_all_37_published_fields_are_here_and_the_deny_list_is_as_agreed() -> None:
    assert len(CHAT_FIELDS) == 37
    assert NOT_KEYED == OPERATIONAL


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_changes_the_key_or_is_on_the_deny_list(name: str) -> None:
    one, other = FIELDS[name]
    changes = key({**BODY, name: one}) != key({**BODY, name: other})
    assert changes is (name not in OPERATIONAL)


@pytest.mark.parametrize("name", FIELDS)
def test_presence_changes_the_key_or_the_field_is_on_the_deny_list(name: str) -> None:
    same = key({**BODY, name: FIELDS[name][1]}) == key({k: v for k, v in BODY.items() if k != name})
    assert same is (name in OPERATIONAL)


@pytest.mark.parametrize("name", FIELDS)
def test_a_null_equals_absence_only_where_the_schema_says_so(name: str) -> None:
    without = {k: v for k, v in BODY.items() if k != name}
    same = key({**without, name: None}) == key(without)
    assert same is (name in OPERATIONAL | NULL_IS_ABSENT)


def test_every_field_at_once_and_one_changed() -> None:
    everything = {name: values[0] for name, values in FIELDS.items()}
    keys = {key({**everything, name: values[1]}) for name, values in FIELDS.items() if name not in OPERATIONAL}
    assert len(keys) == len(FIELDS) - len(OPERATIONAL)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tools": [], "tool_choice": "auto"}, {"tools": []}),
        ({"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "system", "content": "a"}]}),
        ({"messages": [{"role": "user", "content": "ab"}]}, {"messages": [{"role": "user", "content": ["ab"]}]}),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
            {"messages": [{"role": "user", "content": "ab"}]},
        ),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
            {"messages": [{"role": "user", "content": "b"}, {"role": "user", "content": "a"}]},
        ),
        (
            {"messages": [{"role": "assistant", "content": None}]},
            {"messages": [{"role": "assistant", "content": "null"}]},
        ),
        ({"messages": [{"role": "assistant", "content": None}]}, {"messages": [{"role": "assistant"}]}),
        ({"stop": ["a", "b"]}, {"stop": ["b", "a"]}),
        ({"stop": ["ab"]}, {"stop": ["a", "b"]}),
        ({"seed": None, "n": 2}, {"seed": 2, "n": None}),
        ({"logit_bias": {"1": 2}}, {"logit_bias": {"12": None}}),
        ({"a": "b", "c": ""}, {"a": "", "c": "b"}),
        ({"a": {"b": 1}}, {"a.b": 1}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6, "max_completion_tokens": 5}),
    ],
)
def test_shapes_that_look_alike_are_apart(one: Json, other: Json) -> None:
    assert key({**BODY, **one}) != key({**BODY, **other})


def shuffled(value: Any, order: Any) -> Any:
    if isinstance(value, dict):
        names = order.draw(st.permutations(list(value)))
        return {name: shuffled(value[name], order) for name in names}
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    return value


SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(max_size=8)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
BODIES = st.dictionaries(st.sampled_from([*sorted(FIELDS), "", "x", "é", "e\u0301"]), TREES, max_size=6)


@given(BODIES, st.data())
def test_the_order_of_names_does_not_matter_at_any_depth(body: Json, data: st.DataObject) -> None:
    assert canonical_request(shuffled(body, data)) == canonical_request(body)


@given(BODIES, st.sets(st.sampled_from(sorted(FIELDS)), max_size=3))
def test_the_body_is_not_changed_and_bytes_never_differ(body: Json, ignored: set[str]) -> None:
    before = copy.deepcopy(body)
    first = canonical_request(body, ignored)
    assert canonical_request(body, ignored) == first
    assert body == before
    assert orjson.dumps(body) == orjson.dumps(before)


def test_breakpoints_are_left_out_of_parts_alone_and_the_body_keeps_them() -> None:
    part = {"type": "text", "text": "a"}
    marked = {
        "messages": [{"role": "user", "content": [{**part, "prompt_cache_breakpoint": {"mode": "explicit"}}]}]
    }
    before = copy.deepcopy(marked)
    assert canonical_request(marked) == canonical_request({"messages": [{"role": "user", "content": [part]}]})
    assert marked == before
    for elsewhere in (
        {"messages": [{"role": "user", "content": '"prompt_cache_breakpoint"'}]},
        {"messages": [{"role": "user", "content": "a", "prompt_cache_breakpoint": 1}]},
        {"messages": [{"role": "user", "content": [{**part, "image": {"prompt_cache_breakpoint": 1}}]}]},
        {"prompt_cache_breakpoint": 1},
        {"messages": "prompt_cache_breakpoint", "a": {"prompt_cache_breakpoint": 1}},
        {"messages": [1, {"content": ["prompt_cache_breakpoint", {"prompt_cache_breakpoint": 1, "a": 2}]}]},
    ):
        assert b"prompt_cache_breakpoint" in canonical_request({**elsewhere, "x": {"prompt_cache_breakpoint": 0}})


MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


@pytest.mark.parametrize("at", ["message", "part", "call", "tool", "function"])
def test_cache_control_is_left_out_wherever_clients_mark_a_place(at: str) -> None:
    def body(marked: str) -> Json:
        def mark(place: str) -> Json:
            return dict(MARK) if place == marked else {}

        part = {"type": "text", "text": "a", **mark("part")}
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, **mark("call")}
        parameters = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
        function = {"name": "f", "parameters": parameters, **mark("function")}
        return {
            "messages": [
                {"role": "user", "content": [part], **mark("message")},
                {"role": "assistant", "content": None, "tool_calls": [call]},
            ],
            "tools": [{"type": "function", "function": function, **mark("tool")}],
        }

    marked = body(at)
    before = copy.deepcopy(marked)
    assert key(marked) == key(body("nothing"))
    assert marked == before
    assert b'{"cache_control":{"type":"string"}}' in canonical_request(marked), "a schema is no mark"


@pytest.mark.slow
@given(BODIES, BODIES)
def test_two_bodies_share_bytes_only_when_they_say_the_same(one: Json, other: Json) -> None:
    """Brute force: what is left of both after the documented rules, written with types, decides."""
    assert (canonical_request(one) == canonical_request(other)) is (said(one) == said(other))


REAL_NUMBERS = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "min_p",
    "repetition_penalty",
    "length_penalty",
)


def said(body: Json) -> str:
    kept = {
        name: value
        for name, value in body.items()
        if name not in OPERATIONAL and not (value is None and name in NULL_IS_ABSENT)
    }
    for name in REAL_NUMBERS:
        if type(kept.get(name)) is int:
            kept[name] = float(kept[name])
    for name, default in (("n", 1), ("frequency_penalty", 0.0), ("presence_penalty", 0.0), ("logprobs", False)):
        if type(kept.get(name)) is type(default) and kept[name] == default:
            del kept[name]
    if "max_tokens" in kept and "max_completion_tokens" not in kept:
        kept["max_completion_tokens"] = kept.pop("max_tokens")
    return typed(kept)


def typed(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{typed(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(typed, value)) + "]"
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")),
        ("ﬁ", "fi"),
        ("ß", "ss"),
        ("ẞ", "ß"),
        ("a", "A"),
        ("a", "\u0430"),
        ("a", "a\n"),
        ("a\r\n", "a\n"),
        ("a b", "a\tb"),
        ("a b", "a  b"),
        ("a b", "a\u00a0b"),
        ("a", " a"),
        ("a", "a "),
        ("1", "\u0661"),
        ("1", "\uff11"),
        ("½", "1/2"),
        ("-", "\u2212"),
        ("'", "\u2019"),
        ("ab", "a\u200bb"),
        ("ab", "a\u00adb"),
        ("ab", "\u202eab"),
        ("ab", "\ufeffab"),
        ("a", "a\x00"),
        ("Å", "\u212b"),
        ("é", "\u00e9\u0301"),
        ("İ", "i\u0307"),
        ("\ud55c", "\u1112\u1161\u11ab"),
        ("😀", "😀\ufe0f"),
        ("", " "),
        ("\\n", "\n"),
        ("\\u0041", "A"),
        ("\u2028", "\n"),
        ("\ufffd", "?"),
    ],
)
def test_text_is_never_folded(one: str, other: str) -> None:
    assert one != other
    assert key({"messages": [{"role": "user", "content": one}]}) != key(
        {"messages": [{"role": "user", "content": other}]}
    )
    assert key({**BODY, "stop": [one]}) != key({**BODY, "stop": [other]})
    assert key({**BODY, f"x{one}": 1}) != key({**BODY, f"x{other}": 1})
    assert key({**BODY, "logit_bias": {one: 1}}) != key({**BODY, "logit_bias": {other: 1}})
    assert key(BODY, replace(SPACE, partition=one)) != key(BODY, replace(SPACE, partition=other))
    assert KeySpace(SPACE).of_caller(one) != KeySpace(SPACE).of_caller(other)


REAL = [
    ("0", "0"), ("0.0", "0"), ("0e0", "0"), ("0.00", "0"), ("0E5", "0"), ("-0", "0"), ("1", "1"),
    ("1.0", "1"), ("1e0", "1"), ("1E+0", "1"), ("10e-1", "1"), ("0.1e1", "1"), ("1.00", "1"),
    ("0.7", "0.7"), ("0.70", "0.7"),
    ("7e-1", "0.7"), ("70E-2", "0.7"), ("0.70000000000000001", "0.7"),
    ("0.7000000000000001", "0.7000000000000001"),
    ("-0.0", "-0"), ("-0e1", "-0"), ("true", "true"), ("false", "false"), ('"1"', "str 1"), ('"0"', "str 0"),
    ('"0.7"', "str 0.7"), ("[1]", "[1]"), ("{}", "{}"), ("2", "2"), ("2e0", "2"), ("1e-400", "0"),
    ('"1.0"', "str 1.0"),
]  # fmt: skip
"""Spellings of a real-number field, and what each says."""

WHOLE = [
    ("0", "0"), ("-0", "0"), ("0.0", "real 0"), ("1", "1"), ("1.0", "real 1"), ("1e0", "real 1"),
    ("10e-1", "real 1"),
    ("true", "true"), ("false", "false"), ('"1"', "str 1"), ("[1]", "[1]"), ("-0.0", "real -0"), ("2", "2"),
    ("-1", "-1"),
    ("9007199254740992", "2^53"), ("9007199254740991", "2^53-1"), ("9007199254740992.0", "real 2^53"),
    ("9007199254740993.0", "real 2^53"), ("1e2", "real 100"), ("100", "100"),
]  # fmt: skip
"""Spellings of a whole-number field; a real number is not folded into a whole one."""


@pytest.mark.parametrize(
    ("name", "table"), [("temperature", REAL), ("top_p", REAL), ("seed", WHOLE), ("top_k", WHOLE)]
)
def test_numbers_share_a_key_exactly_when_they_say_the_same(name: str, table: list[tuple[str, str]]) -> None:
    keys = [(key({**BODY, **loads(f'{{"{name}":{text}}}'.encode())}), says) for text, says in table]
    assert len(table) >= 20
    for index, (one, says_one) in enumerate(keys):
        for other, says_other in keys[index + 1 :]:
            assert (one == other) is (says_one == says_other), (says_one, says_other)


def test_whole_temperatures_are_reals_and_a_seed_is_not_a_truth_value() -> None:
    assert key({**BODY, "temperature": 0}) == key({**BODY, "temperature": 0.0})
    assert len({key({**BODY, "seed": value}) for value in (1, True, 1.0, "1")}) == 4
    assert key({**BODY, "n": True}) != key(BODY) == key({**BODY, "n": 1})
    assert key({**BODY, "logprobs": 0}) != key(BODY) == key({**BODY, "logprobs": False})


def test_max_tokens_has_one_name_in_the_key() -> None:
    assert key({**BODY, "max_tokens": 9}) == key({**BODY, "max_completion_tokens": 9})
    assert key({**BODY, "max_tokens": 9, "max_completion_tokens": None}) == key({**BODY, "max_tokens": 9})
    assert key({**BODY, "max_tokens": None, "max_completion_tokens": 9}) == key({**BODY, "max_tokens": 9})
    both = {**BODY, "max_tokens": 8, "max_completion_tokens": 9}
    assert key(both) not in {key({**BODY, "max_tokens": 8}), key({**BODY, "max_tokens": 9})}


def test_an_operators_ignored_fields_are_left_out_at_the_top_alone() -> None:
    one, other = {**BODY, "trace": 1, "a": {"trace": 1}}, {**BODY, "trace": 2, "a": {"trace": 1}}
    assert canonical_request(one) != canonical_request(other)
    assert canonical_request(one, ["trace", "absent"]) == canonical_request(other, ("trace",))
    assert b'"a":{"trace":1}' in canonical_request(one, ["trace"])
