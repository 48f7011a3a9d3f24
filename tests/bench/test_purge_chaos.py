"""A small run of the chaos: every fault strikes, purges go on, and nothing that was purged is served."""

import pytest

from bench.purge_chaos.__main__ import run
from bench.purge_chaos.kinds import KINDS, QUESTIONS, Order, Question, ordered, planned
from bench.purge_chaos.truth import Truth
from policies.purge_requests import ASKED_KINDS

_USER = next(kind for kind in KINDS if kind.name == "user")
_ANN, _OTHER = QUESTIONS[0], QUESTIONS[1]
_PORT = 1


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_purged_is_served_while_parts_are_killed() -> None:
    report = await run(requests=450, seed=3, clients=6)
    assert report["stale"] == 0, report
    assert report["requests"] >= 450
    assert len(report["faults"]) == 8
    assert report["purges"] >= 2 * len(KINDS)
    assert report["faults"][-1]["after_purges"] > 0, "purges went on between the faults"
    assert report["answers"]["HIT"] > 0, "there was something to serve stale"
    for label, seen in report["kinds"].items():
        assert seen["returned"] >= 1, label


def _purged(truth: Truth, order: Order) -> None:
    for question in (_ANN, _OTHER):
        truth.answered(truth.sent(question, tolerant=False), 1, "MISS", _PORT)
    truth.returned(order, 2)


def _is_stale(truth: Truth, question: Question, source: str, *, version: int = 1, tolerant: bool = False) -> bool:
    before = len(truth.stale)
    truth.answered(truth.sent(question, tolerant=tolerant), version, source, _PORT)
    return len(truth.stale) > before


def test_every_kind_but_by_meaning_takes_part_hard_and_soft() -> None:
    assert {kind.name for kind in KINDS} == {*ASKED_KINDS, "change"} - {"meaning"}
    assert {planned(number) for number in range(2 * len(KINDS))} == {
        (kind, mode) for kind in KINDS for mode in ("hard", "soft")
    }
    for kind in KINDS:
        covers = ordered(kind, "hard", 1, (7, "a" * 64), 0.0).covers
        assert covers, kind
        assert covers == {7} if kind.name == "entry" else len(covers) > 1


def test_a_hard_purge_leaves_nothing_of_what_it_names() -> None:
    truth = Truth()
    _purged(truth, ordered(_USER, "hard", 2, None, 0.0))
    assert _is_stale(truth, _ANN, "HIT")
    assert _is_stale(truth, _ANN, "STALE", tolerant=True)
    assert not _is_stale(truth, _ANN, "MISS", version=2)
    assert not _is_stale(truth, _OTHER, "HIT")
    assert truth.told() == {"user ann hard": {"returned": 1, "at_stake": 1, "stale": 2}}
    assert truth.kept == 1


def test_a_soft_purge_leaves_stale_answers_to_those_who_accept_them() -> None:
    truth = Truth()
    _purged(truth, ordered(_USER, "soft", 2, None, 0.0))
    assert not _is_stale(truth, _ANN, "STALE", tolerant=True)
    assert truth.allowed_stale == 1
    assert _is_stale(truth, _ANN, "HIT", tolerant=True), "it is not called stale"
    assert _is_stale(truth, _ANN, "STALE"), "nobody asked for it"
    assert _is_stale(truth, _ANN, "HIT")


def test_a_request_that_was_sent_before_the_purge_returned_is_promised_nothing() -> None:
    truth = Truth()
    sent = truth.sent(_ANN, tolerant=False)
    _purged(truth, ordered(_USER, "hard", 2, None, 0.0))
    truth.answered(sent, 1, "HIT", _PORT)
    assert not truth.stale
