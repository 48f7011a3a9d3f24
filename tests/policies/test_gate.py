"""The write gate, as a table: what is never stored, and what is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.gate import FINISHED, refuse_write
from policies.types import ChatResponse, Choice, Json


def answer(*choices: Choice) -> ChatResponse:
    return ChatResponse("id", 1, "m", choices)


def said(content: Any = "Four.", finish_reason: str | None = "stop", index: int = 0, **more: Any) -> Choice:
    return Choice(index, {"role": "assistant", "content": content, **more}, finish_reason)


def call(name: Any = "f", arguments: Any = "{}", **more: Any) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def called(*calls: Any, content: Any = None) -> Choice:
    return said(content, "tool_calls", tool_calls=list(calls))


JSON_ASKED: Json = {"response_format": {"type": "json_object"}}
SCHEMA_ASKED: Json = {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}

STORED: dict[str, tuple[tuple[Choice, ...], Json]] = {
    "a finished text": ((said(),), {}),
    "one of one": ((said(),), {"n": 1}),
    "two of two": ((said(), said(index=1)), {"n": 2}),
    "a null n": ((said(),), {"n": None}),
    "a tool call": ((called(call()),), {}),
    "a tool call with arguments": ((called(call(arguments='{"a":[1]}')),), {}),
    "a tool call without arguments": ((called(call(arguments="")),), {}),
    "two tool calls": ((called(call(), call("g")),), {}),
    "a tool call and text": ((called(call(), content="One moment."),), {}),
    "a tool call and blanks": ((called(call(), content="\n"),), {}),
    "a tool call that ended with stop": ((said(None, tool_calls=[call()]),), {}),
    "a tool call of no type": ((called({"id": "c", "function": {"name": "f", "arguments": "{}"}}),), {}),
    "a custom tool call": ((called({"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}),), {}),
    "an old function call": ((said(None, "function_call", function_call={"name": "f", "arguments": "{}"}),), {}),
    "no calls, said explicitly": ((said(tool_calls=None, function_call=None),), {}),
    "an empty list of calls": ((said(tool_calls=[]),), {}),
    "no refusal, said explicitly": ((said(refusal=None),), {}),
    "reasoning and text": ((said(reasoning_content="Two and two."),), {}),
    "the JSON asked for": ((said('{"a":1}'),), JSON_ASKED),
    "the schema asked for": ((said("[1]"),), SCHEMA_ASKED),
    "a call where JSON was asked for": ((called(call()),), JSON_ASKED),
    "plain text format": ((said("no json"),), {"response_format": {"type": "text"}}),
    "a format that is no object": ((said("no json"),), {"response_format": "json_object"}),
    "zero": ((said("0"),), {}),
}

REFUSED: dict[str, tuple[tuple[Choice, ...], Json, str]] = {
    "no choices": ((), {}, "choices"),
    "too few": ((said(),), {"n": 2}, "choices"),
    "too many": ((said(), said(index=1)), {}, "choices"),
    "too many for a null n": ((said(), said(index=1)), {"n": None}, "choices"),
    "indices with a gap": ((said(), said(index=2)), {"n": 2}, "choices"),
    "indices twice": ((said(), said()), {"n": 2}, "choices"),
    "indices that begin at one": ((said(index=1),), {}, "choices"),
    "cut off": ((said(finish_reason="length"),), {}, "length"),
    "filtered": ((said(finish_reason="content_filter"),), {}, "content_filter"),
    "never finished": ((said(finish_reason=None),), {}, "unfinished"),
    "a finish reason of an error": ((said(finish_reason="error"),), {}, "finish_reason"),
    "an empty finish reason": ((said(finish_reason=""),), {}, "finish_reason"),
    "an abort": ((said(finish_reason="abort"),), {}, "finish_reason"),
    "one of two cut off": ((said(), said(index=1, finish_reason="length")), {"n": 2}, "length"),
    "nothing": ((said(None),), {}, "empty"),
    "an empty text": ((said(""),), {}, "empty"),
    "blanks": ((said(" \n\t\u00a0\u2003"),), {}, "empty"),
    "reasoning alone": ((said("", reasoning_content="Let me think."),), {}, "empty"),
    "no content at all": ((Choice(0, {"role": "assistant"}, "stop"),), {}, "empty"),
    "content that is no text": ((said([{"type": "text", "text": "a"}]),), {}, "content"),
    "content that is a number": ((said(4),), {}, "content"),
    "a refusal in its own field": ((said(None, refusal="I can't."),), {}, "refusal"),
    "a refusal beside text": ((said("Well,", refusal="I can't."),), {}, "refusal"),
    "a refusal in the text": ((said("I'm sorry, but I can't help with that."),), {}, "refusal"),
    "audio that expires": ((said("a", audio={"id": "x", "expires_at": 1}),), {}, "expiring"),
    "tool calls announced, none made": ((said("a", "tool_calls"),), {}, "tool_calls"),
    "tool calls announced, list empty": ((said("a", "tool_calls", tool_calls=[]),), {}, "tool_calls"),
    "function call announced, none made": ((said("a", "function_call"),), {}, "tool_calls"),
    "arguments cut off": ((called(call(arguments='{"a":')),), {}, "tool_arguments"),
    "arguments that are a list": ((called(call(arguments="[]")),), {}, "tool_arguments"),
    "arguments that are null": ((called(call(arguments="null")),), {}, "tool_arguments"),
    "arguments that are an object already": ((called(call(arguments={})),), {}, "tool_arguments"),
    "arguments missing": ((called({"id": "c", "function": {"name": "f"}}),), {}, "tool_arguments"),
    "arguments with NaN": ((called(call(arguments='{"a":NaN}')),), {}, "tool_arguments"),
    "one good call, one broken": ((called(call(), call(arguments="{")),), {}, "tool_arguments"),
    "a call of no name": ((called(call(name="")),), {}, "tool_arguments"),
    "a call whose name is no text": ((called(call(name=1)),), {}, "tool_arguments"),
    "a call of no id": ((called(call(id=None)),), {}, "tool_arguments"),
    "a call of no function": ((called({"id": "c", "type": "function"}),), {}, "tool_arguments"),
    "a call that is no object": ((called("f()"),), {}, "tool_arguments"),
    "calls that are no list": ((said(None, "tool_calls", tool_calls={"0": call()}),), {}, "tool_arguments"),
    "a custom call of no body": ((called({"id": "c", "type": "custom"}),), {}, "tool_arguments"),
    "a call whose type is a list": ((called({"id": "c", "type": ["function"]}),), {}, "tool_arguments"),
    "a call whose type is an object": ((called({"id": "c", "type": {}}),), {}, "tool_arguments"),
    "a call whose type is null": ((called({"id": "c", "type": None}),), {}, "tool_arguments"),
    "a broken call that ended with stop": ((said("a", tool_calls=[call(arguments="{")]),), {}, "tool_arguments"),
    "a broken old call": ((said(None, "function_call", function_call={"name": "f"}),), {}, "tool_arguments"),
    "text where JSON was asked for": ((said("Sure! {}"),), JSON_ASKED, "invalid_json"),
    "JSON cut off": ((said('{"a":'),), JSON_ASKED, "invalid_json"),
    "a list where an object was asked for": ((said("[]"),), JSON_ASKED, "invalid_json"),
    "a number where an object was asked for": ((said("4"),), JSON_ASKED, "invalid_json"),
    "text where a schema was asked for": ((said("no"),), SCHEMA_ASKED, "invalid_json"),
    "one of two not JSON": ((said("{}"), said("no", index=1)), {**JSON_ASKED, "n": 2}, "invalid_json"),
}


@pytest.mark.parametrize("name", STORED)
def test_stored(name: str) -> None:
    choices, asked = STORED[name]
    assert refuse_write(answer(*choices), asked) is None


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    choices, asked, reason = REFUSED[name]
    assert refuse_write(answer(*choices), asked) == reason


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    "name", [name for name, row in REFUSED.items() if len(row[0]) == 1 and row[2] != "choices"]
)
def test_one_bad_choice_among_good_ones_refuses_all(name: str, position: int) -> None:
    (bad,), asked, reason = REFUSED[name]
    good = '{"a":1}' if "response_format" in asked else "Four."
    choices = [said(good, index=index) for index in range(3)]
    choices[position] = Choice(position, bad.message, bad.finish_reason)
    assert refuse_write(answer(*choices), {**asked, "n": 3}) == reason


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["function", "custom", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "function", "name", "arguments", "custom"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)
MESSAGES = st.dictionaries(
    st.sampled_from(["role", "content", "refusal", "tool_calls", "function_call", "audio"]), ANYTHING
)


@pytest.mark.slow
@given(MESSAGES, st.sampled_from([*sorted(FINISHED), "length", "x", None]), ANYTHING, ANYTHING)
def test_any_message_is_judged_and_never_fails(message: Json, reason: str | None, n: Any, wanted: Any) -> None:
    asked = {"n": n, "response_format": {"type": wanted}}
    verdict = refuse_write(answer(Choice(0, message, reason)), asked)
    if verdict is None:
        assert reason in FINISHED
        assert message.get("content") or message.get("tool_calls") or message.get("function_call")
