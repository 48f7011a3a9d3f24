"""Policies in virtual time: what they store, for whom, for how long, and what they answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gateway.replay.contract import Policy
from gateway.replay.layer import LayerRules, SemanticLayer
from gateway.replay.prepare import Prepared, Preparer
from gateway.replay.run import replay
from gateway.replay.shelf import ExactOnly
from gateway.replay.threshold import Nearness, PlainThreshold
from gateway.settings import Settings
from policies.nomination import Ask, Candidate, Nominated
from policies.questions import Place
from policies.replay import Line, Tally, read_line

RULES = LayerRules(0.5, 0.6, 0.0, 4)


class WordJudge:
    """Judges by common words; a number that differs is a veto."""

    def __init__(self) -> None:
        self.rows: dict[int, Place] = {}

    def put(self, row: int, _tenant_id: str, where: Place) -> None:
        self.rows[row] = where

    def remove(self, row: int) -> None:
        del self.rows[row]

    def nominate(self, ask: Ask) -> Nominated:
        found = [
            self._candidate(row, where, ask)
            for row, where in self.rows.items()
            if where.partition == ask.partition
        ]
        return Nominated(tuple(sorted(found, key=lambda one: -one.similarity))[: ask.limit], 0, "words")

    def _candidate(self, row: int, where: Place, ask: Ask) -> Candidate:
        ours, theirs = set(where.question.text.lower().split()), set(ask.question.text.lower().split())
        score = len(ours & theirs) / len(ours | theirs)
        numbers = {word for word in ours ^ theirs if word.isdigit()}
        chance = 0.995 if score > 0.6 else 0.1
        return Candidate(row, score, "number" if numbers else None, None if numbers else chance)


def prepared(*read: dict[str, Any], ttl_s: float = 100.0) -> tuple[list[Line], list[Prepared]]:
    lines = [read_line({"answer": "Yes it is.", **one}) for one in read]
    return lines, Preparer(Settings(), ttl_s).prepare(lines)


def course(policy: Policy, ready: Sequence[Prepared]) -> list[str]:
    """Layer or reason per line."""
    outcomes = [policy.ask(asked) for asked in ready]
    return [outcome.layer or outcome.reason for outcome in outcomes]


def asked(prompt: str, t: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {"prompt": prompt, "t": t, **fields}


def test_exact_only_keeps_tenants_lives_and_requests_apart() -> None:
    lines, ready = prepared(
        asked("What is blue made of?"),
        asked("What is blue made of?", 1),
        asked("What is blue made of?", 2, tenant="other"),
        asked("What is blue made of?", 3, system="Be brief."),
        asked("What is blue made of?", 99.5),
        asked("What is blue made of?", 101),
        asked("What is blue made of?", 150),
    )
    assert course(ExactOnly(lines), ready) == ["absent", "exact", "absent", "absent", "exact", "absent", "exact"]


def test_controls_and_the_write_gate_hold() -> None:
    lines, ready = prepared(
        asked("What is blue made of?", headers={"cache-control": "no-store"}),
        asked("What is blue made of?"),
        asked("What is blue made of?", headers={"cache-control": "no-cache"}),
        asked("What is blue made of?", headers={"x-lamina-cache-mode": "off"}),
        asked("What is red made of?", answer="I'm sorry, but I can't help with that."),
        asked("What is red made of?"),
        asked("What is green made of?", headers={"x-lamina-cache-ttl": "5"}),
        asked("What is green made of?", 6),
    )
    assert course(ExactOnly(lines), ready) == [
        *("absent", "absent", "absent", "off"),
        *("absent", "absent", "absent", "absent"),
    ]


def test_a_plain_threshold_takes_the_nearest_that_lives() -> None:
    lines, ready = prepared(
        asked("one"), asked("two"), asked("three", 1), asked("three", 1, tenant="other"), asked("three", 200)
    )
    vectors = np.array([[1, 0], [0.6, 0.8], [0.8, 0.6], [0.8, 0.6], [0.8, 0.6]], np.float32)
    near = PlainThreshold(lines, Nearness(ready, vectors), 0.9)
    assert course(near, ready) == [
        "semantic_unsure",
        "semantic_unsure",
        "semantic",
        "semantic_unsure",
        "semantic_unsure",
    ]
    far = PlainThreshold(lines, Nearness(ready, vectors), 0.99)
    assert "semantic" not in course(far, ready)


def test_nearness_is_the_same_in_blocks_of_any_size() -> None:
    draw = np.random.default_rng(5)
    vectors = draw.normal(size=(300, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _, ready = prepared(*(asked(f"question {number}", tenant=f"t{number % 3}") for number in range(300)))
    nearness = Nearness(ready, vectors)
    for one in ready:
        assert one.unguarded_place is not None
        partition = one.unguarded_place.partition
        mates = nearness.members[partition][: nearness.rank[one.at]]
        np.testing.assert_allclose(nearness.before(one.at, partition), vectors[mates] @ vectors[one.at], atol=1e-6)


def test_the_layer_serves_copies_vetoes_and_forgets() -> None:
    lines, ready = prepared(
        asked("how do I open box 4"),
        asked("how do I open up box 4", 1),
        asked("how do I open up box 4", 2),
        asked("how do I open box 7", 3),
        asked("how do I open that box 4", 4, tenant="other"),
        asked("how can I open box 4", 150),
    )
    judge = WordJudge()
    layer = SemanticLayer(lines, judge, RULES, seed=1)
    assert course(layer, ready) == [
        "semantic_none",
        "semantic",
        "exact",
        "semantic_veto_number",
        "semantic_none",
        "semantic_none",
    ]
    assert set(judge.rows) == {6}, "what has outlived its life is taken out of the index"


def test_what_guards_hide_is_never_found_by_meaning() -> None:
    mail = "please tell jane.k.doe@gmail.com how to open box 4"
    lines, ready = prepared(asked(mail), asked(mail.replace("please ", ""), 1))
    judge = WordJudge()
    course(SemanticLayer(lines, judge, RULES, seed=1), ready)
    assert judge.rows == {}


@pytest.mark.parametrize("max_wrong", [0.02, 0.1])
def test_a_layer_that_is_wrong_keeps_its_budget(max_wrong: float) -> None:
    """Half of the questions that look alike are not."""
    read = []
    for number in range(400):
        pair = number // 2
        truth = f"{pair}" if pair % 2 else f"{pair}-{number}"
        prompt = f"how do I open the {pair}x box" + " now" * (number % 2)
        read.append(asked(prompt, number, system=f"{pair % 20}", cluster=truth))
    lines, ready = prepared(*read, ttl_s=1e6)
    (run,) = replay(ready, [SemanticLayer(lines, WordJudge(), LayerRules(max_wrong, 0.5, 0.05, 4), seed=3)])
    assert run.tally.wrong_of_all()[1].low <= max_wrong


def test_equal_seeds_replay_alike() -> None:
    read = [
        asked(f"how do I open the {number % 40} red box" + " now" * (number % 3), number) for number in range(200)
    ]
    lines, ready = prepared(*read)

    def told() -> Tally:
        return replay(ready, [SemanticLayer(lines, WordJudge(), RULES, seed=9)])[0].tally

    assert told().course() == told().course()
