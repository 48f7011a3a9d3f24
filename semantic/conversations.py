"""Conversations compared as wholes: found by what their last turn depends on, judged by rules and a forest."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Protocol

import numpy as np

from policies.conversations import (
    Told,
    Verdict,
    Weights,
    Wording,
    early_verdict,
    late_verdict,
    parse_wording,
    read_turn,
    read_weights,
    texts_needed,
)
from policies.conversations.alone import stands_alone
from policies.conversations.context import same_turn
from policies.questions import Question, Turn
from policies.vetoes import Lexicon, compare
from semantic.remembered import Remembered

LEAST_LIKENESS = 0.4
"""Of two last turns; below, the conversations are not compared."""

HARD_VETOES = frozenset({"number", "date", "code", "harm", "unread"})
"""Vetoes of last turns that hold in any context; the others also speak where only the ellipsis differs."""

_REMEMBERED_TURNS = 50_000
_CONTEXT_CHARACTERS = 700
_PER_TURN_CHARACTERS = 240
_NEWLINE = "\n"


class _Embedder(Protocol):
    def embed(self, texts: Sequence[str]) -> np.ndarray: ...


def load_wording() -> Wording:
    """The word lists of `policies/conversations/data`."""
    text = (resources.files("policies.conversations") / "data" / "wording.txt").read_text("utf-8")
    return parse_wording(text, hashlib.sha256(text.encode()).hexdigest())


def load_weights() -> Weights:
    """The learnt weights of `semantic/weights`.

    Raises:
        ValueError: the file is broken.
    """
    return read_weights((resources.files("semantic") / "weights" / "conversations.json").read_bytes())


class Conversations:
    """Judges whether two conversations deserve the same answer; safe from several threads if the embedder is.

    Args:
        embedder: for the turns that differ.
        lexicon: for their facts.
        wording: closed lists of everyday words.
        weights: what was learnt.
    """

    def __init__(self, embedder: _Embedder, lexicon: Lexicon, wording: Wording, weights: Weights) -> None:
        self._embedder = embedder
        self._lexicon = lexicon
        self._wording = wording
        self._weights = weights
        self._turns: Remembered[Turn, Told] = Remembered(_REMEMBERED_TURNS, lambda _told: 1)
        made_from = f"conversations-1\n{wording.digest}\n{lexicon.lists}\n{weights!r}"
        self.fingerprint = hashlib.sha256(made_from.encode()).hexdigest()[:16]

    def nomination_text(self, question: Question) -> str:
        """What stands for the conversation when it is embedded, for stored and asked questions alike.

        A last turn that stands alone stands for itself; to another come the turns it is likeliest to depend on:
        the assistant's last, the first, and those in between from the latest back, within a bound.
        """
        turns = self._read(question)
        if stands_alone(turns[-1], self._wording):
            return turns[-1].text
        spoken = [told for told in turns[:-1] if not told.idle]
        order = [*spoken[-1:], *spoken[:1], *reversed(spoken[1:-1])]
        kept, room = [turns[-1].text], _CONTEXT_CHARACTERS
        for told in order:
            part = told.text[:_PER_TURN_CHARACTERS]
            if len(part) > room:
                break
            kept.append(part)
            room -= len(part)
        return _NEWLINE.join(kept)

    def judge(self, stored: Question, asked: Question) -> tuple[str | None, float]:
        """The veto that speaks, or None, and the probability of an equal answer, 0 with a veto."""
        return self.judge_all(asked, [stored])[0]

    def judge_all(self, asked: Question, stored: Sequence[Question]) -> list[tuple[str | None, float]]:
        """Judges several stored conversations at once: all turns that differ are embedded together.

        Raises:
            BusyError: too much waits for the embedder.
        """
        return [(verdict.veto, verdict.probability) for verdict in self.verdicts(asked, stored)]

    def verdicts(self, asked: Question, stored: Sequence[Question]) -> list[Verdict]:
        """As `judge_all`, with what the verdict rests on."""
        turns = self._read(asked)
        others = [self._read(question) for question in stored]
        found = [self._early(other, turns) for other in others]
        open_places = [place for place, verdict in enumerate(found) if verdict is None]
        near = self._near(turns, {place: others[place] for place in open_places})
        vectors = self._vectors([text for place in near for text in texts_needed(others[place], turns)])

        def likeness(one: str, other: str) -> float:
            return _cosine(vectors, one, other)

        return [
            verdict
            or (
                late_verdict(others[place], turns, likeness, self._wording, self._weights)
                if place in near
                else Verdict("conversation_last", 0.0)
            )
            for place, verdict in enumerate(found)
        ]

    def _near(self, asked: Sequence[Told], stored: Mapping[int, Sequence[Told]]) -> list[int]:
        """The conversations whose last turns are alike enough to go on."""
        others = {place: turns[-1] for place, turns in stored.items() if not same_turn(turns[-1], asked[-1])}
        vectors = self._vectors([asked[-1].text, *(told.text for told in others.values())] if others else [])
        return [
            place
            for place in stored
            if place not in others or _cosine(vectors, others[place].text, asked[-1].text) >= LEAST_LIKENESS
        ]

    def _early(self, stored: Sequence[Told], asked: Sequence[Told]) -> Verdict | None:
        """What needs no vectors, the vetoes of the last turns among it."""
        if not same_turn(stored[-1], asked[-1]):
            veto = compare(stored[-1].facts, asked[-1].facts)
            if veto in HARD_VETOES:
                return Verdict(veto, 0.0)
        return early_verdict(stored, asked, self._wording, self._weights)

    def _read(self, question: Question) -> list[Told]:
        return [self._told(turn) for turn in question.turns]

    def _told(self, turn: Turn) -> Told:
        known = self._turns.get(turn)
        if known is None:
            known = read_turn(turn, self._wording, self._lexicon)
            self._turns.put(turn, known)
        return known

    def _vectors(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self._embedder.embed(distinct), strict=True)) if distinct else {}


def _cosine(vectors: dict[str, np.ndarray], one: str, other: str) -> float:
    return float(vectors[one] @ vectors[other])


def build_conversations(embedder: _Embedder, lexicon: Lexicon) -> Conversations:
    """A judge with the packaged lists and weights."""
    return Conversations(embedder, lexicon, load_wording(), load_weights())
