"""`cache_control` marks of Anthropic requests: lifted out of the body, so that a key never sees them."""

import copy
import itertools
from typing import Any

import pytest

from gateway.errors import ApiError
from gateway.protocols.anthropic_request import read_request
from policies.keys import canonical_request
from policies.types import CacheMark

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def asked(messages: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": messages or [{"role": "user", "content": "Hi"}], **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


RESULT = {"type": "tool_result", "tool_use_id": "t1"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("body", "marks"),
    [
        (asked([user(text("a", **MARK))]), [CacheMark(("messages", 0, "content", 0), 300)]),
        (asked([user(text("a"), text("b", **HOUR))]), [CacheMark(("messages", 0, "content", 1), 3600)]),
        (asked(system=[text("a"), text("b", **MARK)]), [CacheMark(("messages", 0, "content", 1), 300)]),
        (asked(tools=[TOOL, {**TOOL, **MARK}]), [CacheMark(("tools", 1), 300)]),
        (
            asked([{"role": "assistant", "content": [text("x"), {**CALL, **HOUR}]}, user({**RESULT, **MARK})]),
            [CacheMark(("messages", 0, "tool_calls", 0), 3600), CacheMark(("messages", 1, "content", 0), 300)],
        ),
        (
            asked([user({**RESULT, "content": [text("a"), text("b", **MARK), text("c")], "is_error": True})]),
            [CacheMark(("messages", 0, "content", 3), 300)],
        ),
        (asked(**MARK), [CacheMark(("messages", 0, "content", 0), 300)]),
        (asked([user(text("a"), text("b"))], **HOUR), [CacheMark(("messages", 0, "content", 1), 3600)]),
        (asked([user(text("a", **HOUR))], **MARK), [CacheMark(("messages", 0, "content", 0), 3600)]),
        (
            asked([{"role": "assistant", "content": [CALL]}], **MARK),
            [CacheMark(("messages", 0, "tool_calls", 0), 300)],
        ),
        (asked([user(text("a", cache_control=None))], cache_control=None), []),
    ],
)
def test_marks_are_lifted_in_the_order_of_the_prompt(body: dict[str, Any], marks: list[CacheMark]) -> None:
    before = copy.deepcopy(body)
    request = read_request(body, ())
    assert list(request.marks) == marks
    assert body == before


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return value


PLACES: dict[str, Any] = {
    "system": lambda mark: {"system": [text("s", **mark)]},
    "tools": lambda mark: {"tools": [{**TOOL, **mark}]},
    "lone text": lambda mark: {"messages": [user(text("a", **mark))]},
    "call": lambda mark: {"messages": [{"role": "assistant", "content": [{**CALL, **mark}]}]},
    "failed result": lambda mark: {
        "messages": [user({**RESULT, "is_error": True, "content": [text("no", **mark)]}, text("b"))]
    },
    "top": lambda mark: mark,
}


@pytest.mark.parametrize(("place", "mark"), [*itertools.product(PLACES, (MARK, HOUR))])
def test_a_mark_changes_neither_body_nor_key(place: str, mark: dict[str, Any]) -> None:
    marked = read_request(asked() | PLACES[place](mark), ())
    plain = read_request(unmarked(asked() | PLACES[place](mark)), ())
    assert marked.marks
    assert not plain.marks
    assert marked.body == plain.body
    assert canonical_request(marked.body) == canonical_request(plain.body)


@pytest.mark.parametrize(
    "mark",
    [{"type": "persistent"}, {}, "ephemeral", {"type": "ephemeral", "ttl": "2h"}, {"type": "ephemeral", "ttl": 5}],
)
def test_a_bad_mark_is_a_400_that_names_its_place(mark: Any) -> None:
    with pytest.raises(ApiError) as caught:
        read_request(asked([user(text("a"), text("b", cache_control=mark))]), ())
    assert caught.value.status == 400
    assert caught.value.param == "messages[0].content[1].cache_control"
    with pytest.raises(ApiError, match="ephemeral"):
        read_request(asked(cache_control=mark), ())


def test_a_fifth_mark_is_refused_the_automatic_one_counted() -> None:
    four = [user(*(text(word, **MARK) for word in "abcd"), text("e"))]
    assert len(read_request(asked(four), ()).marks) == 4
    with pytest.raises(ApiError, match="found 5"):
        read_request(asked(four, **MARK), ())
