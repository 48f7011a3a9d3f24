"""What of a nomination may be served, and why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import budget
from policies.nomination import Candidate
from policies.semantic import MISSES, OTHER_VETO, Least, Threshold, eligible, is_plain, reason_of, refusal_of
from policies.types import ChatResponse, Choice

PROBABILITIES = st.none() | st.floats(0, 1)
CANDIDATES = st.builds(
    Candidate, st.integers(1, 99), st.floats(-1, 1), st.sampled_from([None, "number", "odd"]), PROBABILITIES
)


def answer(finish: str | None = "stop", choices: int = 1, **message: object) -> ChatResponse:
    said = {"role": "assistant", "content": "Yes.", **message}
    return ChatResponse("x", 0, "m", tuple(Choice(number, said, finish) for number in range(choices)))


@given(st.lists(CANDIDATES, max_size=6))
def test_the_eligible_are_judged_and_not_vetoed_best_first(candidates: list[Candidate]) -> None:
    best = eligible(candidates)
    assert all(one.veto is None and one.probability is not None for one in best)
    assert len(best) == sum(one.veto is None and one.probability is not None for one in candidates)
    assert [one.probability for one in best] == sorted((one.probability for one in best), reverse=True)  # type: ignore[type-var]


@given(st.lists(CANDIDATES, max_size=6))
def test_a_refusal_has_a_reason_of_the_closed_set(candidates: list[Candidate]) -> None:
    assert refusal_of(candidates, frozenset({"number"})) in MISSES | {"semantic_veto_number"}


def test_the_nearest_tells_its_veto() -> None:
    near, far = Candidate(1, 0.9, "number"), Candidate(2, 0.5, "date")
    assert refusal_of([far, near], frozenset({"number", "date"})) == "semantic_veto_number"
    assert refusal_of([near], frozenset()) == OTHER_VETO
    assert refusal_of([], frozenset()) == "semantic_none"
    assert refusal_of([Candidate(1, 0.9)], frozenset()) == "semantic_unjudged"


@pytest.mark.parametrize(
    ("response", "plain"),
    [
        (answer(), True),
        (answer(refusal=None, annotations=[], tool_calls=[]), True),
        (answer(reasoning_content="Hm."), True),
        (answer(choices=2), False),
        (answer(choices=0), False),
        (answer(finish="length"), False),
        (answer(finish=None), False),
        (answer(tool_calls=[{"id": "1"}]), False),
        (answer(annotations=[{"type": "url_citation"}]), False),
        (answer(content=None), False),
        (answer(content=""), False),
    ],
)
def test_only_one_text_may_answer_another_wording(response: ChatResponse, *, plain: bool) -> None:
    assert is_plain(response) is plain


def test_a_budget_that_learns_nothing_serves_from_its_threshold_on() -> None:
    threshold = Threshold(Least(0.9, 0.7))
    assert isinstance(threshold.decide(Candidate(1, 0.5, None, 0.9)), budget.Serve)
    refused = threshold.decide(Candidate(1, 1.0, None, 0.89))
    assert isinstance(refused, budget.Refuse)
    assert reason_of(refused) == "semantic_unsure"
    assert isinstance(threshold.decide(Candidate(1, 1.0)), budget.Refuse)


def test_a_compared_conversation_has_a_threshold_of_its_own() -> None:
    threshold = Threshold(Least(0.9, 0.7))
    assert isinstance(threshold.decide(Candidate(1, 0.9, None, 0.75, "conversation")), budget.Serve)
    assert isinstance(threshold.decide(Candidate(1, 0.9, None, 0.75, "turn")), budget.Refuse)
    assert isinstance(threshold.decide(Candidate(1, 0.9, None, 0.65, "conversation")), budget.Refuse)


@pytest.mark.parametrize("reason", ["learn", "audit", "observe", "suspended"])
def test_every_reason_of_the_budget_has_a_name_here(reason: str) -> None:
    assert reason_of(budget.Explore(0.5, 0.5, reason)) in MISSES  # type: ignore[arg-type]
