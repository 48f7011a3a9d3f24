"""What an explanation says; every field is told to the administrator as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EntryFinding:
    """A stored answer, judged as the walk would now.

    Attributes:
        decision: `hit`, `stale` or `miss`; `reason` is the rule that said so.
        age_s, ttl_s: since it was made, and left.
        purged: `hard` or `soft` when the purge log names it.
        policy: version of the guards that let it be stored; `guards` are what today's speak against it, if they
            are others.
        source: key of the semantic row that it is a copy of, else empty.
    """

    decision: str
    reason: str
    age_s: float = 0.0
    ttl_s: float = 0.0
    purged: str | None = None
    policy: str = ""
    guards: tuple[str, ...] = ()
    request_id: str = ""
    tags: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class CandidateFinding:
    """A stored question that may have the same answer.

    Attributes:
        question: as it was asked; None when the row is gone.
        similarity: cosine, -1 to 1.
        vetoes: every rule that speaks, and what it saw; the first decides.
        probability: the verifier's, that the answers are equal.
        budget: what the error budget makes of it, with its numbers; None when it is not asked.
        entry: the stored answer's own state; None when the row is gone or unfit.
        refused: the rule that says no; None when it may answer.
    """

    row: int
    question: str | None
    similarity: float
    how: str
    veto: str | None
    vetoes: tuple[tuple[str, str], ...]
    probability: float | None
    budget: Mapping[str, Any] | None
    entry: EntryFinding | None
    refused: str | None


@dataclass(frozen=True, slots=True)
class NearestFinding:
    """A request that was stored, and in which parts it differs from the one asked about.

    Attributes:
        similarity: of the questions; None where they are the same to the letter and nobody was asked.
        differs: names of parts; None when the row was written without them.
    """

    row: int
    key: str
    question: str
    similarity: float | None
    state: str
    differs: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class MeaningFinding:
    """The semantic part.

    Attributes:
        asked: whether the service was asked; if not, `reason` says why.
        decision: `hit`, `would_hit` (observed only) or `miss`.
        served_share: of requests like this one, those answered so; the error budget explores with the rest.
        models: fingerprint of what judged.
        spent_ms: embedding, search, vetoes, verifier.
    """

    asked: bool
    reason: str
    decision: str = "miss"
    served_share: float = 0.0
    models: str = ""
    spent_ms: Sequence[float] = ()
    candidates: Sequence[CandidateFinding] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of it.

    Attributes:
        verdict: `hit`, `stale`, `would_hit`, `miss` or `bypass`.
        layer: that answers, or None.
        rule: the one that decided, as in metrics and headers.
        because: the same in a sentence.
        key: the exact key, in hexadecimal; None where there is none.
        controls: those that the request carries.
        guards: verdicts on the question, however the layers decide.
        parts: a short digest of each part of the key, in hexadecimal, by the part's name.
    """

    verdict: str
    layer: str | None
    rule: str
    because: str
    tenant: Mapping[str, str]
    route: Mapping[str, Any]
    key: str | None
    controls: Mapping[str, Any] = field(default_factory=dict)
    exact: EntryFinding | None = None
    meaning: MeaningFinding | None = None
    guards: Sequence[Mapping[str, Any]] = ()
    nearest: Sequence[NearestFinding] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
