"""What the semantic layer may do with a nomination, and why it did not serve; every reason is in a closed set."""

from collections.abc import Iterable, Sequence

import msgspec

from policies.budget import Decision, Explore, Refuse, Serve
from policies.nomination import Candidate
from policies.types import ChatResponse, Json

SAME_QUESTION = 0.9995
"""Cosine from which two questions may be the same to the byte; whether they are, their exact keys say."""

_UNAVAILABLE = ("timeout", "down", "status", "garbled", "rows")
_UNFIT = ("gone", "foreign", "corrupt", "quarantined", "expired", "purged", "soft_purged", "max_age", "min_fresh")
_UNWANTED = ("none", "unsure", "unjudged", "learn", "audit", "suspended", "observe", "loading", "guard", "clock")
OTHER_VETO = "semantic_veto_other"
MISSES: frozenset[str] = frozenset(
    {*(f"semantic_{reason}" for reason in (*_UNAVAILABLE, *_UNFIT, *_UNWANTED)), OTHER_VETO}
)
"""Why no row was served, apart from vetoes: these are `semantic_veto_` and the veto's name."""

_PLAIN_FIELDS = frozenset({"role", "content", "reasoning_content", "reasoning"})


_OF_BUDGET = {
    "learn": "semantic_learn",
    "audit": "semantic_audit",
    "suspended": "semantic_suspended",
    "observe": "semantic_observe",
    "hopeless": "semantic_unsure",
    "loading": "semantic_loading",
}


class Least(msgspec.Struct, frozen=True):
    """The least probability, 0 to 1, that a candidate needs.

    Attributes:
        turn: of one whose histories are equal.
        conversation: of one whose histories were compared; its probability comes from harder pairs.
    """

    turn: float
    conversation: float

    def of(self, candidate: Candidate) -> float:
        """What this candidate needs."""
        return self.conversation if candidate.how == "conversation" else self.turn


ANY_CHANCE = Least(0.0, 0.0)
LEAST_CHANCE = Least(0.8, 0.65)
"""Candidates whose chance of being right is less are never served, whatever was learnt."""


class Threshold(msgspec.Struct, frozen=True):
    """The budget of one who learns nothing: serves from a fixed probability on."""

    least: Least

    def decide(self, candidate: Candidate) -> Decision:
        """Whether the candidate may answer."""
        chance = candidate.probability or 0.0
        return Serve(chance, 0.0) if chance >= self.least.of(candidate) else Refuse(chance, 1.0, "hopeless")


def reason_of(decision: Explore | Refuse) -> str:
    """What is told of a budget that did not serve; one of MISSES."""
    return _OF_BUDGET[decision.reason]


def eligible(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that no veto speaks against and a verifier has judged, the most probable first."""
    judged = (one for one in candidates if one.veto is None and one.probability is not None)
    return sorted(judged, key=lambda one: (one.probability or 0.0, one.similarity), reverse=True)


def refusal_of(candidates: Sequence[Candidate], vetoes: frozenset[str]) -> str:
    """Why none of the candidates is eligible; a veto is told when it alone stood against the nearest.

    Args:
        candidates: as nominated.
        vetoes: names that may be told; another, which a newer service may know, is `other`.
    """
    if not candidates:
        return "semantic_none"
    nearest = max(candidates, key=lambda one: one.similarity)
    if nearest.veto is None:
        return "semantic_unjudged"
    return f"semantic_veto_{nearest.veto}" if nearest.veto in vetoes else OTHER_VETO


def is_plain(response: ChatResponse) -> bool:
    """Whether the answer is one text and nothing else, so that it may answer a question that is put otherwise."""
    if len(response.choices) != 1 or response.choices[0].finish_reason != "stop":
        return False
    message: Json = response.choices[0].message
    said = {name for name, value in message.items() if value not in (None, [], "")}
    return said <= _PLAIN_FIELDS and isinstance(message.get("content"), str) and "content" in said
