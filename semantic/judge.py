"""Judging meaning: nearest stored questions, vetoes, verifier. Serving is decided elsewhere.

The judge is what the server and the benchmarks call; every method may be called from any thread.
"""

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from policies.nomination import (
    Ask,
    Candidate,
    Near,
    NearRows,
    Nominated,
    Pairs,
    Texts,
    Vectors,
    Verdicts,
)
from policies.questions import Question
from semantic.embedders.shared import SharedEmbedder
from semantic.errors import RequestError
from semantic.index.index import Index
from semantic.turns import Conversations
from semantic.verifying import SharedVerifier
from semantic.vetoes import Vetoes

LEAST_SIMILARITY = 0.5
"""Candidates below are not verified: mostly strangers that the verifier is too sure of, and few wordings."""

_ANSWER_CHARS = 600
"""Of an answer this much is compared by the verifier, whose reach is a question's; the vetoes read on."""

FAULT = "fault"
"""The veto of a candidate whose rules or verifier failed."""

_SEARCHED_PER_WANTED = 4
_LEAST_SEARCHED = 16
_CONVERSATIONS_PER_WANTED = 2


class Questions(Protocol):
    """Tells what was asked in stored rows."""

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """The questions of the rows that are still live."""
        ...


class Told(Protocol):
    """Hears what is worth counting."""

    def fault(self, where: str) -> None:
        """Something failed, and the request went on without it."""
        ...

    def nominated(self, spent_ms: tuple[float, float, float, float], candidates: Sequence[Candidate]) -> None:
        """A question was answered."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a judge works with; without a verifier nothing but the same question has a probability."""

    embedder: SharedEmbedder
    index: Index
    questions: Questions
    vetoes: Vetoes
    verifier: SharedVerifier | None
    conversations: Conversations
    told: Told
    reached: Callable[[], int]


@dataclass(slots=True)
class _Found:
    """A candidate being judged; `pair` is what the verifier is to compare."""

    row: int
    similarity: float
    how: str
    pair: tuple[str, str] | None = None
    veto: str | None = None
    probability: float | None = None

    @property
    def rank(self) -> tuple[bool, float, float]:
        return self.veto is not None, -(self.probability or 0.0), -self.similarity

    def candidate(self) -> Candidate:
        return Candidate(self.row, self.similarity, self.veto, self.probability, self.how)


class Judge:
    """Nominates stored questions for an asked one, and compares texts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        prints = [parts.embedder.fingerprint, parts.vetoes.fingerprint, parts.conversations.fingerprint]
        prints.append(parts.verifier.fingerprint if parts.verifier else "none")
        self.models = hashlib.sha256("\n".join(prints).encode()).hexdigest()[:16]

    def nominate(self, ask: Ask) -> Nominated:
        """Stored questions that may have the same answer, best first.

        Raises:
            BusyError: too much waits for the embedder.
            StoreError: the questions of the nearest rows cannot be read.
        """
        clock = [time.perf_counter()]
        vectors = self._embed(ask)
        clock.append(time.perf_counter())
        found = self._search(ask, vectors)
        clock.append(time.perf_counter())
        found = self._weigh(ask, found)
        clock.append(time.perf_counter())
        self._verify([one for one in found if one.veto is None])
        clock.append(time.perf_counter())
        best = sorted(found, key=lambda one: one.rank)[: ask.limit]
        spent_ms = tuple(1000 * (end - start) for start, end in itertools.pairwise(clock))
        embedding, search, vetoes, verifier = spent_ms
        nominated = Nominated(
            candidates=tuple(one.candidate() for one in best),
            reached=self._parts.reached(),
            models=self.models,
            spent_ms=(embedding, search, vetoes, verifier),
        )
        self._parts.told.nominated(nominated.spent_ms, nominated.candidates)
        return nominated

    def embed(self, asked: Texts) -> Vectors:
        """Unit vectors of texts."""
        vectors = self._parts.embedder.embed(asked.texts).astype("<f4")
        return Vectors(tuple(vector.tobytes() for vector in vectors), self._parts.embedder.fingerprint)

    def verify(self, asked: Pairs) -> Verdicts:
        """Per pair the veto that speaks, and the probability that both texts say, or are answered by, the same.

        Without a verifier only equal texts are probable.
        """
        vetoes = [None if pair[0] == pair[1] else self._veto(pair) for pair in asked.pairs]
        most = _ANSWER_CHARS if asked.kind == "answers" else None
        open_pairs = [
            (one[:most], other[:most])
            for (one, other), veto in zip(asked.pairs, vetoes, strict=True)
            if veto is None and one != other
        ]
        probable = iter(self._probabilities(open_pairs))
        verdicts: list[tuple[str | None, float]] = []
        for (stored, asked_text), veto in zip(asked.pairs, vetoes, strict=True):
            if veto is not None or stored == asked_text:
                verdicts.append((veto, 1.0 if veto is None else 0.0))
            else:
                probability = next(probable)
                verdicts.append((None, probability) if probability is not None else (FAULT, 0.0))
        return Verdicts(tuple(verdicts))

    def near(self, asked: Near) -> NearRows:
        """Live rows of a tenant near a text or a row, nearest first.

        Raises:
            RequestError: neither a text nor a row is given, or the tenant has no such row.
        """
        parts = self._parts
        if asked.text is not None:
            vector = parts.embedder.embed([asked.text])[0]
        elif asked.row is not None:
            stored = parts.index.vector_of(asked.tenant_id, asked.row)
            if stored is None:
                raise RequestError(404, "the tenant has no such row in the index")
            vector = stored
        else:
            raise RequestError(400, "near needs a text or a row")
        rows = parts.index.near(asked.tenant_id, asked.families, vector, asked.similarity, asked.limit)
        return NearRows(tuple(rows))

    def _embed(self, ask: Ask) -> tuple[np.ndarray, np.ndarray | None]:
        """Vectors of the last turn and, where there is a history, of the conversation."""
        whole = self._parts.conversations.nomination_text(ask.question) if ask.question.history else None
        texts = [ask.question.text] if whole is None else [ask.question.text, whole]
        vectors = self._parts.embedder.embed(texts)
        return vectors[0], None if whole is None else vectors[1]

    def _search(self, ask: Ask, vectors: tuple[np.ndarray, np.ndarray | None]) -> list[_Found]:
        most = max(_LEAST_SEARCHED, _SEARCHED_PER_WANTED * ask.limit)
        index, (turn, whole) = self._parts.index, vectors
        found = {row: _Found(row, near, "turn") for row, near in index.search(ask.partition, turn, most)}
        if whole is not None:
            for row, near in index.search_conversations(ask.family, whole, most):
                found.setdefault(row, _Found(row, near, "conversation"))
        return sorted(found.values(), key=lambda one: -one.similarity)

    def _weigh(self, ask: Ask, found: Sequence[_Found]) -> list[_Found]:
        """Applies rules and comparison of conversations, nearest first; rows that are gone drop out."""
        stored = self._parts.questions.questions([one.row for one in found])
        turns: list[_Found] = []
        others: list[_Found] = []
        wanted = ask.limit
        for one in found:
            question = stored.get(one.row)
            if question is None:
                continue
            if question.history != ask.question.history:
                others.append(one)
            elif wanted:
                self._weigh_turn(one, question, ask.question)
                wanted -= one.veto is None
                turns.append(one)
        others = others[: _CONVERSATIONS_PER_WANTED * ask.limit]
        self._weigh_conversations(others, stored, ask.question)
        return turns + others

    def _weigh_turn(self, one: _Found, stored: Question, asked: Question) -> None:
        """Judges a candidate with the same history by its last turn, up to the verifier."""
        one.how = "turn"
        if stored.turns == asked.turns:
            one.probability = 1.0
        else:
            one.pair = (stored.text, asked.text)
            one.veto = self._veto(one.pair)

    def _weigh_conversations(
        self, found: Sequence[_Found], stored: Mapping[int, Question], asked: Question
    ) -> None:
        """Judges candidates with other histories as wholes."""
        for one in found:
            if one.how == "turn":  # the row lies in a partition that its history does not belong to
                self._parts.told.fault("misplaced")
                one.veto = FAULT
        sound = [one for one in found if one.veto is None]
        if not sound:
            return
        try:
            verdicts = self._parts.conversations.judge_all(asked, [stored[one.row] for one in sound])
            judged = list(zip(sound, verdicts, strict=True))
        except Exception:  # noqa: BLE001  (counted below; it costs the candidates, not the request)
            judged = [(one, (None, math.nan)) for one in sound]
        for one, (veto, probability) in judged:
            failed = veto is None and not _sound(probability)
            one.veto = FAULT if failed else veto
            one.probability = probability if one.veto is None else None
            if failed:
                self._parts.told.fault("conversations")

    def _veto(self, pair: tuple[str, str]) -> str | None:
        try:
            return self._parts.vetoes.veto(*pair)
        except Exception:  # noqa: BLE001  (counted; it costs the candidate, not the request)
            self._parts.told.fault("vetoes")
            return FAULT

    def _verify(self, found: Sequence[_Found]) -> None:
        """Gives candidates that stand in the same history their probabilities, unless one is the same question."""
        if self._parts.verifier is None or any(one.probability == 1.0 for one in found):
            return
        asked = [one for one in found if one.pair is not None and one.similarity >= LEAST_SIMILARITY]
        probable = self._probabilities([one.pair for one in asked if one.pair is not None])
        for one, probability in zip(asked, probable, strict=True):
            one.probability = probability
            one.veto = FAULT if probability is None else None

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float | None]:
        """One probability per pair; None where the verifier failed."""
        verifier = self._parts.verifier
        if verifier is None:
            return [0.0] * len(pairs)
        try:
            found = verifier.probabilities(pairs) if pairs else []
        except Exception:  # noqa: BLE001  (counted; it costs the candidates, not the request)
            self._parts.told.fault("verifier")
            return [None] * len(pairs)
        if not all(map(_sound, found)):
            self._parts.told.fault("verifier")
        return [one if _sound(one) else None for one in found]


def _sound(probability: float) -> bool:
    return math.isfinite(probability) and 0 <= probability <= 1
