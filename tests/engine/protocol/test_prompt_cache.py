"""Fields of prompt caching: read, checked, and gone from the body before anything else looks at it."""

import copy
from typing import Any

import orjson
import pytest

from engine.errors import RequestError
from engine.protocol.prompt_cache import NO_WISHES, Mark, PromptCacheFields, Where, lift_prompt_cache
from engine.protocol.token_calls import read_tokenize_call

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
STOP = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def part(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def user(*content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content), **more}


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"cache_control": {}}}}}


@pytest.mark.parametrize(
    ("body", "wishes"),
    [
        ({"messages": [user(part("ab", **MARK), part("c"))]}, [Mark(Where.TEXT, 0, 2, 300)]),
        ({"messages": [user(part("ab"), part("c", **HOUR))]}, [Mark(Where.TEXT, 0, 3, 3600)]),
        ({"messages": [{"role": "system", "content": "abc", **MARK}]}, [Mark(Where.TEXT, 0, 3, 300)]),
        (
            {
                "messages": [
                    user(part("a")),
                    {"role": "assistant", "content": None, "tool_calls": [CALL, CALL | MARK]},
                ]
            },
            [Mark(Where.CALL, 1, 1, 300)],
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [CALL], **MARK}]},
            [Mark(Where.CALL, 0, 0, 300)],
        ),
        ({"messages": [user(part("a"))], "tools": [TOOL, TOOL | HOUR]}, [Mark(Where.TOOL, 1, 0, 3600)]),
        (
            {"messages": [user(part("a"))], "tools": [TOOL | {"function": TOOL["function"] | MARK}]},  # type: ignore[operator]
            [Mark(Where.TOOL, 0, 0, 300)],
        ),
        ({"messages": [user(part("ab", **STOP))]}, [Mark(Where.TEXT, 0, 2, 1800)]),
        (
            {"messages": [user(part("ab", prompt_cache_breakpoint={"mode": "explicit", "ttl": "12h"}))]},
            [Mark(Where.TEXT, 0, 2, 43200)],
        ),
        (
            {"messages": [user({"type": "refusal", "refusal": "no"}, part("a", **MARK))]},
            [Mark(Where.TEXT, 0, 3, 300)],
        ),
    ],
)
def test_marks_stand_where_they_stood_and_are_gone(body: dict[str, Any], wishes: list[Mark]) -> None:
    before = copy.deepcopy(body)
    bare, found = lift_prompt_cache(body)
    assert found == PromptCacheFields(tuple(wishes))
    assert body == before
    assert b'"cache_control":{"type"' not in orjson.dumps(bare)
    assert b"prompt_cache_breakpoint" not in orjson.dumps(bare)
    if "tools" in body:
        assert b'"properties":{"cache_control":{}}' in orjson.dumps(bare), "a schema is no mark"


@pytest.mark.parametrize(
    ("fields", "whole_ttl_s"),
    [
        ({}, None),
        (MARK, 300),
        (HOUR, 3600),
        ({"cache_control": None}, None),
        ({"prompt_cache_key": "k", "prompt_cache_retention": "in_memory"}, None),
        ({"prompt_cache_retention": "24h"}, 86400),
        ({"prompt_cache_options": {"ttl": "30m"}}, 1800),
        ({"prompt_cache_options": {"ttl": "12h", "mode": "implicit"}}, 43200),
        ({"prompt_cache_options": {"ttl": "12h", "mode": "explicit"}}, None),
        ({"prompt_cache_options": {"mode": "explicit"}, "prompt_cache_retention": "24h"}, None),
        ({"prompt_cache_options": None, "prompt_cache_retention": None}, None),
        ({"prompt_cache_options": {"ttl": "30m"}, **HOUR}, 3600),
    ],
)
def test_whole_prompts_are_kept_as_asked(fields: dict[str, Any], whole_ttl_s: int | None) -> None:
    bare, found = lift_prompt_cache({"messages": [user(part("a"))], **fields})
    assert found == PromptCacheFields((), whole_ttl_s)
    assert "cache_control" not in bare


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cache_control": {"type": "forever"}}, "cache_control"),
        ({"cache_control": "ephemeral"}, "cache_control"),
        ({"cache_control": {"type": "ephemeral", "ttl": "30m"}}, "cache_control.ttl"),
        ({"messages": [user(part("a", cache_control={}))]}, "messages[0].content[0].cache_control"),
        (
            {"messages": [user(part("a", prompt_cache_breakpoint={}))]},
            "messages[0].content[0].prompt_cache_breakpoint",
        ),
        (
            {"messages": [user(part("a", prompt_cache_breakpoint={"mode": "explicit", "ttl": "1h"}))]},
            "messages[0].content[0].prompt_cache_breakpoint.ttl",
        ),
        ({"tools": [TOOL | {"cache_control": 1}]}, "tools[0].cache_control"),
        ({"prompt_cache_retention": "1h"}, "prompt_cache_retention"),
        ({"prompt_cache_options": []}, "prompt_cache_options"),
        ({"prompt_cache_options": {"mode": "auto"}}, "prompt_cache_options.mode"),
        ({"prompt_cache_options": {"ttl": "5m"}}, "prompt_cache_options.ttl"),
        ({"prompt_cache_key": 7}, "prompt_cache_key"),
    ],
)
def test_what_is_not_understood_is_a_400_that_names_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(RequestError) as caught:
        lift_prompt_cache({"messages": [user(part("a"))], **fields})
    assert (caught.value.status, caught.value.param) == (400, named)


def test_a_fifth_mark_is_refused_and_of_breakpoints_the_latest_count() -> None:
    four = [user(*(part(word, **MARK) for word in "abcd"))]
    assert len(lift_prompt_cache({"messages": four})[1].marks) == 4
    with pytest.raises(RequestError, match="at most 4"):
        lift_prompt_cache({"messages": four, **MARK})
    stops = [user(*(part(word, **STOP) for word in "abcdef"))]
    found = lift_prompt_cache({"messages": stops})[1]
    assert [mark.inner for mark in found.marks] == [3, 4, 5, 6]
    found = lift_prompt_cache({"messages": stops, "prompt_cache_options": {"ttl": "30m"}})[1]
    assert [mark.inner for mark in found.marks] == [4, 5, 6]
    both = [user(*(part(word, **MARK) for word in "abcd"), part("e", **STOP))]
    assert len(lift_prompt_cache({"messages": both})[1].marks) == 4


@pytest.mark.parametrize(
    "odd", [{"messages": "x"}, {"messages": [1, None]}, {"tools": {}}, {"messages": [{"content": 1}]}]
)
def test_what_has_no_shape_is_left_to_those_who_refuse_it(odd: dict[str, Any]) -> None:
    assert lift_prompt_cache(odd) == (odd, NO_WISHES)


def test_tokens_are_counted_without_marks_too() -> None:
    messages = [user(part("a", **MARK))]
    marked = read_tokenize_call({"messages": messages, "tools": [TOOL | HOUR]})
    assert marked == read_tokenize_call({"messages": [user(part("a"))], "tools": [TOOL]})
