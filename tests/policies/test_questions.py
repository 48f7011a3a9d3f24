"""Where a question belongs: everything but the turns is compared to the byte."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.keys import Namespace
from policies.questions import NoQuestion, Place, place

SPACE = Namespace("t1", "chat", "openai/m")


def placed(body: dict[str, Any], space: Namespace = SPACE) -> Place:
    found = place(body, space)
    assert isinstance(found, Place)
    return found


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    return {"messages": messages, **more}


def test_two_wordings_share_a_partition_and_two_histories_do_not() -> None:
    one, other = placed(chat("How are you?")), placed(chat("How do you do?"))
    assert one.partition == other.partition
    late, later = placed(chat("cats", "ok", "how old?")), placed(chat("dogs", "ok", "how old?"))
    assert late.partition != later.partition
    assert late.family == later.family == one.family


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"something_new": 1},
        {"max_tokens": 5},
        {"seed": 3},
    ],
)
def test_each_part_of_the_frame_matters(change: dict[str, Any]) -> None:
    assert placed(chat("q")).family != placed(chat("q", **change)).family


def test_instructions_matter_with_their_place() -> None:
    plain = chat("a", "b", "c")
    bodies = []
    for at in (0, 2):
        body = copy.deepcopy(plain)
        body["messages"].insert(at, {"role": "system", "content": "Be brief."})
        bodies.append(body)
    other = copy.deepcopy(bodies[0])
    other["messages"][0]["content"] = "Be long."
    families = {placed(body).family for body in (plain, *bodies, other)}
    assert len(families) == 4


@pytest.mark.parametrize("tenant", ["t2", "t", "t1 "])
def test_tenants_never_meet(tenant: str) -> None:
    mine, theirs = placed(chat("q")), placed(chat("q"), Namespace(tenant, "chat", "openai/m"))
    assert {mine.partition, mine.family}.isdisjoint({theirs.partition, theirs.family})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (chat("q", n=2), "choices"),
        (chat("q", logprobs=True), "logprobs"),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}, "no_user_turn"),
        ({"messages": [{"role": "user", "content": "  "}]}, "no_user_turn"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "content",
        ),
        ({"messages": [{"role": "user", "content": "q", "name": "bob"}]}, "content"),
    ],
)
def test_what_is_no_question_says_why(body: dict[str, Any], reason: str) -> None:
    assert place(body, SPACE) == NoQuestion(reason)


turns = st.lists(st.text(min_size=1, max_size=5).filter(str.strip), min_size=1, max_size=5)


@given(turns, turns)
def test_equal_partition_means_equal_history(one: list[str], other: list[str]) -> None:
    one, other = [*one, "q"][: 1 + len(one) // 2 * 2], [*other, "r"][: 1 + len(other) // 2 * 2]
    first, second = placed(chat(*one)), placed(chat(*other))
    assert (first.partition == second.partition) == (one[:-1] == other[:-1])
