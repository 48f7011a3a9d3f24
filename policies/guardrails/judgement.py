"""From verdicts to one decision: where an answer may be stored, and for how long."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from policies.guardrails.types import Guard, Material, Subject, Verdict
from policies.keys import encode_parts

GuardMaterial = tuple[Guard, Material]


class GuardDecision(msgspec.Struct, frozen=True):
    """Where an answer may be stored.

    Attributes:
        exact: in the exact layer.
        semantic: in the semantic layer too.
        ttl_cap_s: longest life, or None when guards do not shorten it.
        reasons: why less than everything is allowed, strictest first; metric labels. Empty when all is allowed.
    """

    exact: bool
    semantic: bool
    ttl_cap_s: float | None = None
    reasons: tuple[str, ...] = ()


ALLOWED = GuardDecision(exact=True, semantic=True)


def refused(reason: str) -> GuardDecision:
    """Nothing may be stored."""
    return GuardDecision(exact=False, semantic=False, reasons=(reason,))


def decide(verdicts: Sequence[Verdict], subject: Subject, hidden: frozenset[str]) -> GuardDecision:
    """What the verdicts allow together: the strictest wins.

    Args:
        verdicts: of all guards that had something to say.
        subject: what they judged.
        hidden: guards whose findings must never reach the index.
    """
    if not verdicts:
        return ALLOWED
    private = subject.scope_kind != "tenant"
    lives = [verdict.ttl_s for verdict in verdicts if verdict.action == "short_life" and verdict.ttl_s is not None]
    life_s = min(lives, default=None)
    exact = all(_exact(verdict, private=private) for verdict in verdicts) and (life_s is None or life_s > 0)
    semantic = exact and all(
        verdict.action == "private" and private and verdict.guard not in hidden for verdict in verdicts
    )
    ordered = sorted(verdicts, key=lambda verdict: _exact(verdict, private=private))
    reasons = tuple(dict.fromkeys(verdict.reason for verdict in ordered))
    return GuardDecision(exact, semantic, life_s, reasons)


def _exact(verdict: Verdict, *, private: bool) -> bool:
    return verdict.action != "refuse" and (private or verdict.action != "private")


def policy_version(guards: Iterable[GuardMaterial]) -> str:
    """A short digest of guards, their code's versions, data and settings: equal only for equal judgement."""
    digest = hashlib.sha256()
    for guard, material in guards:
        settings = msgspec.json.encode(msgspec.structs.replace(material, data=b""))
        data = hashlib.sha256(material.data).digest()
        named = ((guard.name, guard.version.encode()), ("settings", settings), ("data", data))
        digest.update(encode_parts(named))
    return digest.hexdigest()[:12]
