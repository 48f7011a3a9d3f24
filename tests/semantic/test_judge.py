"""The judge: who is nominated, in what order, and that a part that fails costs a candidate and not the request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from policies.nomination import Ask, Candidate, Nominated, Pairs
from policies.questions import Question
from semantic.embedders.shared import SharedEmbedder
from semantic.index.index import Entry, Index
from semantic.judge import LEAST_SIMILARITY, Judge, Parts
from semantic.turns import LastTurns
from semantic.verifying import SharedVerifier
from tests.semantic.embedders.letters import Letters
from tests.semantic.rows_stand import digest, partition_of, single, talk


@dataclass
class Stand:
    """Every part of a judge, under the test's control."""

    rows: dict[int, Question] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    verified: list[tuple[str, str]] = field(default_factory=list)
    rule: Callable[[str, str], str | None] = lambda _stored, _asked: None
    probable: Callable[[str, str], float] = lambda _stored, _asked: 0.5
    fingerprint: str = "stand"

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """Of the rows that are live."""
        return {row: self.rows[row] for row in rows if row in self.rows}

    def fault(self, where: str) -> None:
        """Is counted."""
        self.faults.append(where)

    def nominated(self, spent_ms: tuple[float, ...], candidates: Sequence[Candidate]) -> None:
        """Is not."""

    def veto(self, stored: str, asked: str) -> str | None:
        """By the test's rule."""
        return self.rule(stored, asked)

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """By the test's function."""
        self.verified += pairs
        return [self.probable(stored, asked) for stored, asked in pairs]


class Compared(LastTurns):
    """Compares conversations by how long they are."""

    def judge_all(self, asked: Question, stored: Sequence[Question]) -> Sequence[tuple[str | None, float]]:
        """Probable when they are equally long."""
        if any(question.text == "raise" for question in stored):
            raise RuntimeError
        if any(question.text == "nonsense" for question in stored):
            return [(None, float("nan"))] * len(stored)
        return [(None, 0.5) if len(one.turns) == len(asked.turns) else ("length", 0.0) for one in stored]


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def parts(stand: Stand) -> Iterator[Parts]:
    embedder, verifier = SharedEmbedder(Letters()), SharedVerifier(stand)
    yield Parts(
        embedder=embedder,
        index=Index(256, "letters"),
        questions=stand,
        vetoes=stand,
        verifier=verifier,
        conversations=Compared(),
        told=stand,
        reached=lambda: 77,
    )
    embedder.close()
    verifier.close()


def store(parts: Parts, stand: Stand, *questions: Question) -> None:
    """Puts rows, numbered from 1, into the index."""
    for question in questions:
        row = len(stand.rows) + 1
        stand.rows[row] = question
        whole = parts.conversations.nomination_text(question) if question.history else None
        vectors = parts.embedder.embed([question.text, whole or "x"])
        partition = partition_of(question, "f")
        conversation = None if whole is None else vectors[1]
        parts.index.put([Entry(row, (row, 0.0), "t", digest("f"), partition, vectors[0], conversation)])


def nominate(parts: Parts, question: Question, limit: int = 4) -> Nominated:
    """Asks the judge."""
    return Judge(parts).nominate(Ask(partition_of(question, "f"), digest("f"), question, limit))


def test_the_best_is_the_most_probable_and_vetoed_ones_come_last(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcdefgh"), single("abcdefgi"), single("abcdefgj"))
    stand.rule = lambda stored, _: "number" if stored == "abcdefgi" else None
    stand.probable = lambda stored, _: 0.9 if stored == "abcdefgj" else 0.2
    found = nominate(parts, single("abcdefghh"))
    assert [(one.row, one.veto, one.probability) for one in found.candidates] == [
        (3, None, 0.9),
        (1, None, 0.2),
        (2, "number", None),
    ]
    assert found.reached == 77
    assert len(found.spent_ms) == 4
    assert {one.how for one in found.candidates} == {"turn"}


def test_strangers_are_not_verified(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcd"))
    (found,) = nominate(parts, single("aefgh")).candidates
    assert found.similarity < LEAST_SIMILARITY
    assert (found.probability, stand.verified) == (None, [])


def test_the_same_question_is_sure_and_costs_no_verifier(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcd"), single("abc"))
    found = nominate(parts, single("abcd"))
    assert (found.candidates[0].row, found.candidates[0].probability) == (1, 1.0)
    assert stand.verified == []


def test_only_as_many_as_wanted_are_verified_and_told(stand: Stand, parts: Parts) -> None:
    store(parts, stand, *(single("abcdefgh"[:length]) for length in range(1, 9)))
    found = nominate(parts, single("abcdefghi"), limit=2)
    assert len(stand.verified) == len(found.candidates) == 2


def test_who_is_far_away_is_not_verified(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("zzz"))
    found = nominate(parts, single("aaa"))
    assert [one.probability for one in found.candidates] == [None]
    assert stand.verified == []


def test_rows_that_are_gone_are_not_told(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcd"), single("abce"))
    del stand.rows[1]
    assert [one.row for one in nominate(parts, single("abcd")).candidates] == [2]


def test_a_rule_or_verifier_that_fails_costs_its_candidate_only(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcd"), single("abce"))

    def rule(stored: str, _: str) -> str | None:
        if stored == "abcd":
            raise RuntimeError
        return None

    stand.rule = rule
    found = nominate(parts, single("abc"))
    assert [(one.row, one.veto, one.probability) for one in found.candidates] == [
        (2, None, 0.5),
        (1, "fault", None),
    ]
    for wrong in (float("nan"), 1.5, -0.1):
        stand.probable = lambda _stored, _asked, wrong=wrong: wrong
        assert {one.veto for one in nominate(parts, single("abc")).candidates} == {"fault"}
    stand.probable = lambda _stored, _asked: 1 / 0
    assert {one.veto for one in nominate(parts, single("abc")).candidates} == {"fault"}
    assert set(stand.faults) == {"vetoes", "verifier"}


def test_conversations_are_compared_as_wholes_without_the_verifier(stand: Stand, parts: Parts) -> None:
    store(parts, stand, talk("about rome", "yes", "how far"), talk("a", "b", "about rome", "yes", "how far"))
    found = nominate(parts, talk("about roma", "yess", "how farr"))
    assert [(one.row, one.how, one.veto, one.probability) for one in found.candidates] == [
        (1, "conversation", None, 0.5),
        (2, "conversation", "length", None),
    ]
    assert stand.verified == []


def test_the_same_last_turn_in_another_conversation_is_not_the_same_question(stand: Stand, parts: Parts) -> None:
    store(parts, stand, talk("about rome", "yes", "how far"))
    found = nominate(parts, talk("about oslo", "yes", "how far"))
    assert [(one.how, one.probability) for one in found.candidates] == [("conversation", 0.5)]
    assert (
        nominate(replace(parts, conversations=LastTurns()), talk("about oslo", "yes", "how far"))
        .candidates[0]
        .veto
    )


@pytest.mark.parametrize("text", ["raise", "nonsense"])
def test_a_conversation_that_cannot_be_judged_costs_its_candidate_only(
    stand: Stand, parts: Parts, text: str
) -> None:
    store(parts, stand, talk("about rome", "yes", text), talk("about oslo", "yes", f"{text}s"))
    found = nominate(parts, talk("about oslo", "yes", f"{text}d"))
    assert [(one.row, one.veto, one.probability) for one in found.candidates] == [
        (2, None, 0.5),
        (1, "fault", None),
    ]
    assert set(stand.faults) == {"conversations"}


def test_a_row_in_a_partition_of_another_history_is_never_served(stand: Stand, parts: Parts) -> None:
    store(parts, stand, talk("about rome", "yes", "how far"))
    stand.rows[1] = talk("about oslo", "yes", "how far")
    found = nominate(parts, talk("about rome", "yes", "how far"))
    assert [one.veto for one in found.candidates] == ["fault"]
    assert stand.faults == ["misplaced"]


def test_without_a_verifier_only_the_same_question_is_probable(stand: Stand, parts: Parts) -> None:
    store(parts, stand, single("abcd"))
    alone = replace(parts, verifier=None)
    assert nominate(alone, single("abce")).candidates[0].probability is None
    assert nominate(alone, single("abcd")).candidates[0].probability == 1.0
    assert Judge(alone).verify(Pairs((("a", "b"), ("a", "a")))).verdicts == ((None, 0.0), (None, 1.0))


def test_pairs_are_judged_by_rules_and_verifier(stand: Stand, parts: Parts) -> None:
    stand.rule = lambda stored, _: "number" if stored == "5" else None
    verdicts = Judge(parts).verify(Pairs((("5", "6"), ("a", "b"), ("c", "c")))).verdicts
    assert verdicts == (("number", 0.0), (None, 0.5), (None, 1.0))


def test_what_learns_is_told_when_anything_that_decides_changes(parts: Parts) -> None:
    known = Judge(parts).models
    assert Judge(replace(parts, verifier=None)).models != known
    assert Judge(replace(parts, conversations=LastTurns())).models == known
    assert Judge(replace(parts, vetoes=Stand(fingerprint="other"))).models != known
    assert np.isfinite(int(known, 16))
