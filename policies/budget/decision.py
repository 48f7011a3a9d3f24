"""Serve, explore or refuse: so often the model is asked that, of all requests, at most a share delta is wrong.

With chance c that the stored answer is right, exploring with probability tau makes the answer right with at least
tau + (1 - tau) * c; that is 1 - delta from tau = 1 - delta / (1 - c) on. Source: vCache (arXiv 2502.03771) 4.
"""

import math
from typing import Literal

import msgspec

from policies.budget.pool import Pool

Caution = Literal["normal", "tightened", "suspended"]
"""How far the layer is trusted; see `guard`."""

TIGHTENED = 0.25
"""The part of its budget that a tightened layer plans with."""

_HOPELESS = 0.05
_UNSERVED_SHARE = 0.25
_ENOUGH_AUDITS = 200.0
_MOST_OFTEN = 10.0


class Rules(msgspec.Struct, frozen=True):
    """What the operator allows of a route, and what the guard has come to.

    Attributes:
        delta: largest share of all requests that may be answered wrongly, above 0.
        least_chance: candidates less likely right than this are never served, 0 to 1.
        audit_share: share of would-be hits that go upstream for an unbiased figure, once there are enough audits.
        serving: false where nothing may be served, as in observe mode.
        caution: the guard's.
        audits: how many audits the unbiased figure rests on.
        least_score: candidates below it are never served, whatever was learnt.
    """

    delta: float
    least_chance: float = 0.9
    audit_share: float = 0.02
    serving: bool = True
    caution: Caution = "normal"
    audits: float = 0.0
    least_score: float = -math.inf

    def audited(self) -> float:
        """The share of would-be hits to audit now: more while there are few, and where they cost no hit."""
        if not self.serving or self.caution == "suspended":
            return max(self.audit_share, _UNSERVED_SHARE) if self.audit_share > 0 else 0.0
        few = max(1.0, _ENOUGH_AUDITS / (self.audits + 1.0))
        often = _MOST_OFTEN if self.caution == "tightened" else min(_MOST_OFTEN, few)
        return min(1.0, self.audit_share * often)


class Serve(msgspec.Struct, frozen=True):
    """The stored answer may go out.

    Attributes:
        chance: lower bound of the chance that it is right.
        explore: tau, the probability with which the model was asked instead.
    """

    chance: float
    explore: float
    reason: str = "served"


class Explore(msgspec.Struct, frozen=True):
    """The model answers; then both answers are compared.

    Attributes:
        chance, explore: as for Serve.
        reason: `learn`: the bound asks for it; `audit`: a would-be hit, drawn at random; `observe` and
            `suspended`: the same where nothing is served.
        share: the probability with which would-be hits were drawn; 1 for `learn`.
    """

    chance: float
    explore: float
    reason: Literal["learn", "audit", "observe", "suspended"]
    share: float = 1.0


class Refuse(msgspec.Struct, frozen=True):
    """The model answers and nothing is compared.

    Attributes:
        reason: `hopeless`: too unlikely to be worth a comparison; `loading`: what was learnt is not read yet;
            `observe`, `suspended`: would have been served.
    """

    chance: float
    explore: float
    reason: Literal["hopeless", "loading", "observe", "suspended"]


Decision = Serve | Explore | Refuse


def would_serve(decision: Decision) -> bool:
    """Whether it is a would-be hit: served, or kept back only to be counted."""
    return decision.reason not in {"learn", "hopeless", "loading"}


def exploration(chance: float, delta: float) -> float:
    """tau: the least probability of asking the model that keeps the share of wrong answers at delta, 0 to 1."""
    if chance >= 1.0:
        return 0.0
    return max(0.0, 1.0 - delta / (1.0 - max(0.0, chance)))


def decide(score: float, row: int | None, pool: Pool, rules: Rules, u: float) -> Decision:
    """What becomes of a candidate.

    Args:
        score: the candidate's, see `score_of`.
        row: its number, for its own labels.
        pool: what has been learnt.
        rules: what is allowed.
        u: drawn from [0, 1).
    """
    chance = pool.chance(score, row)
    if chance < _HOPELESS:
        return Refuse(chance, 1.0, "hopeless")
    delta = rules.delta if rules.caution == "normal" else rules.delta * TIGHTENED
    likely = chance >= rules.least_chance and score >= rules.least_score
    tau = exploration(chance, delta) if likely else 1.0
    if u < tau:
        return Explore(chance, tau, "learn")
    drawn = (u - tau) / (1.0 - tau) < rules.audited()
    if not rules.serving:
        return Explore(chance, tau, "observe", rules.audited()) if drawn else Refuse(chance, tau, "observe")
    if rules.caution == "suspended":
        return Explore(chance, tau, "suspended", rules.audited()) if drawn else Refuse(chance, tau, "suspended")
    return Explore(chance, tau, "audit", rules.audited()) if drawn else Serve(chance, tau)
