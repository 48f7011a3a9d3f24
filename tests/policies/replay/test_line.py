"""Lines of a request log: every field, what is refused, and what is true."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.replay import Line, LineError, read_line, same_answer

PROMPT: dict[str, Any] = {"prompt": "Hi?"}


def test_a_prompt_and_its_surroundings() -> None:
    line = read_line(
        {
            "t": 3,
            "tenant": "north",
            "prompt": "Hi?",
            "system": "Be brief.",
            "model": "small",
            "headers": {"Cache-Control": "no-cache"},
            "answer": "Hello.",
            "cluster": 7,
            "prompt_tokens": 5,
            "completion_tokens": 6,
            "latency_ms": 1.5,
            "something": "else",
        },
        2.0,
    )
    assert (line.t_s, line.tenant, line.model, line.truth) == (3.0, "north", "small", "cluster=7")
    assert [message["role"] for message in line.body["messages"]] == ["system", "user"]
    assert line.headers == ((b"cache-control", b"no-cache"),)
    assert (line.prompt_tokens, line.completion_tokens, line.latency_ms) == (5, 6, 1.5)


def test_a_whole_request_and_what_is_left_out() -> None:
    body = {"model": "big", "messages": [{"role": "user", "content": "Hi?"}], "seed": 1}
    line = read_line({"request": body}, 5.0)
    assert (line.model, line.t_s, line.tenant, line.answer, line.truth) == ("big", 5.0, "default", None, None)
    assert line.body == {"messages": body["messages"], "seed": 1}
    assert body["model"] == "big", "the log is not changed"


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        ([], "object"),
        ({}, "neither"),
        ({"prompt": 3}, "neither"),
        ({"request": {}}, "messages"),
        ({"request": {"messages": ["x"]}}, "messages"),
        (PROMPT | {"t": 1}, "sort"),
        (PROMPT | {"t": "x"}, "'t'"),
        (PROMPT | {"t": True}, "'t'"),
        (PROMPT | {"t": float("nan")}, "'t'"),
        (PROMPT | {"t": 9, "latency_ms": -1}, "latency_ms"),
        (PROMPT | {"t": 9, "tenant": 3}, "tenant"),
        (PROMPT | {"t": 9, "cluster": [1]}, "cluster"),
        (PROMPT | {"t": 9, "answer_id": True}, "answer_id"),
        (PROMPT | {"t": 9, "headers": ["x"]}, "headers"),
    ],
)
def test_what_is_no_line(read: object, problem: str) -> None:
    with pytest.raises(LineError, match=problem):
        read_line(read, 2.0)


def line(answer: str | None = None, truth: str | None = None) -> Line:
    return Line(0.0, "t", "m", {"messages": []}, answer=answer, truth=truth)


@pytest.mark.parametrize(
    ("stored", "asked", "right"),
    [
        (line("a", "c1"), line("b", "c1"), True),
        (line("a", "c1"), line("a", "c2"), False),
        (line(" a  b"), line("a b\n"), True),
        (line("a"), line("b"), None),
        (line("a", "c1"), line("a"), True),
        (line(None, "c1"), line(None), None),
        (line(), line(), None),
    ],
)
def test_truth(stored: Line, asked: Line, right: bool | None) -> None:
    assert same_answer(stored, asked) is right
    assert same_answer(asked, stored) is right


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_read_or_refused(read: object) -> None:
    try:
        found = read_line(read)
    except LineError:
        return
    assert found.t_s >= 0
