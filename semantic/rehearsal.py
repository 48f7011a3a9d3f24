"""Judges over rows in memory, for replaying logs: the models of the service, without a database or a server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from policies.nomination import Ask, Nominated
from policies.questions import Place, Question
from semantic.index.index import Entry, Index
from semantic.metrics import Metrics
from semantic.options import Options
from semantic.remembered import Remembered
from semantic.verifying import Pair, SharedVerifier, Verifier
from semantic.wiring import Models, build_judge, load_models

_MOST_PAIRS = 500_000


class Rehearsal:
    """The models, loaded once and shared by any number of judges; close it once.

    What the verifier said of a pair is kept, so that several policies over one log cost little more than one.
    """

    def __init__(self, models: Models, metrics: Metrics) -> None:
        self._models = models
        self._metrics = metrics
        verifier = SharedVerifier(_Remembering(models.verifier)) if models.verifier is not None else None
        self._shared = replace(models, verifier=verifier)

    @property
    def verifies(self) -> bool:
        """Whether there is a verifier; without one nothing but the same question is ever served."""
        return self._models.verifier is not None

    @property
    def dimensions(self) -> int:
        """Of a vector."""
        return self._models.embedder.dimensions

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, fp32 [texts, dimensions]."""
        return self._models.embedder.embed(texts)

    def judging(self) -> "MemoryJudge":
        """A judge that knows no row yet."""
        return MemoryJudge(self._shared, self._metrics)

    def close(self) -> None:
        """Ends the models' threads."""
        self._shared.close()
        self._models.close()


class MemoryJudge:
    """Judges over rows that are put in and taken out; one thread at a time."""

    def __init__(self, models: Models, metrics: Metrics) -> None:
        self._models = models
        self._index = Index(models.embedder.dimensions, models.embedder.fingerprint)
        self._questions: dict[int, Question] = {}
        self._judge = build_judge(models, self._index, self, metrics, lambda: 0)

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """What was asked in rows; see `semantic.judge.Questions`."""
        return {row: self._questions[row] for row in rows if row in self._questions}

    def put(self, row: int, tenant_id: str, where: Place) -> None:
        """Takes in a stored question."""
        question, embedder = where.question, self._models.embedder
        whole = self._models.conversations.nomination_text(question) if question.history else None
        vectors = embedder.embed([question.text] if whole is None else [question.text, whole])
        entry = Entry(row, (row, 0.0), tenant_id, where.family, where.partition, vectors[0])
        self._questions[row] = question
        self._index.put([entry if whole is None else replace(entry, conversation=vectors[1])])

    def remove(self, row: int) -> None:
        """Forgets it."""
        self._questions.pop(row, None)
        self._index.remove(row)

    def nominate(self, ask: Ask) -> Nominated:
        """Candidates, best first; see `semantic.judge.Judge`."""
        return self._judge.nominate(ask)


class _Remembering:
    """A verifier that answers a pair it was asked before from memory."""

    def __init__(self, verifier: Verifier) -> None:
        self.fingerprint = verifier.fingerprint
        self._verifier = verifier
        self._known: Remembered[Pair, float] = Remembered(_MOST_PAIRS, lambda _probability: 1)

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """See Verifier."""
        missing = list(dict.fromkeys(pair for pair in pairs if self._known.get(pair) is None))
        fresh = dict(zip(missing, self._verifier.probabilities(missing), strict=True)) if missing else {}
        for pair, probability in fresh.items():
            self._known.put(pair, probability)
        return [fresh[pair] if pair in fresh else self._known.get(pair) or 0.0 for pair in pairs]


def open_rehearsal(options: Options) -> Rehearsal:
    """Loads the models.

    Raises:
        SemanticError: one cannot be loaded.
    """
    metrics = Metrics()
    return Rehearsal(load_models(options, metrics), metrics)
