"""Pair sets: the `a` side is stored, the `b` side is asked; what is served of either label."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from bench.semantic.sets import LabelledPair
from policies.budget import Pool, score_of
from policies.budget.decision import exploration
from policies.intervals import wilson
from policies.keys import Namespace
from policies.nomination import Ask, Candidate
from policies.questions import Place, place
from policies.semantic import Least
from semantic.rehearsal import MemoryJudge, Rehearsal

HALF_LIFE_S = 30 * 86400.0
_LIMIT = 4

Outcome = tuple[LabelledPair, str | None, float, float]
"""The pair, which row answered, the share served before anything was learnt, ms.

The row is `own`, `other`, `repeated` when another one asks the same to the letter, or None.
"""


def run_pairs(
    rehearsal: Rehearsal, pairs: Sequence[LabelledPair], least: Least, delta: float, *, together: bool
) -> dict[str, Any]:
    """What is served.

    Args:
        rehearsal: the models.
        pairs: of one set.
        least: chance of a right answer from which a candidate without veto is served.
        delta: error budget, for the share that a layer serves which has learnt nothing yet.
        together: whether all `a` sides are stored at once, in place of one at a time.
    """
    pool = Pool(HALF_LIFE_S)
    judge = rehearsal.judging() if together else None
    if judge is not None:
        for row, pair in enumerate(pairs):
            judge.put(row + 1, "tenant", _where(pair.a))
    outcomes = [
        _ask(judge or _alone(rehearsal, row, pair), row, pair, (least, delta, pool))
        for row, pair in enumerate(pairs)
    ]
    latencies = sorted(latency_ms for _, _, _, latency_ms in outcomes)
    found = _shares(outcomes)
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for kind in outcome[0].kinds:
            kinds[kind].append(outcome)
    found["kinds"] = {kind: _shares(some) for kind, some in sorted(kinds.items())}
    found["latency_ms"] = {
        "p50": round(statistics.median(latencies), 2),
        "p99": round(latencies[int(0.99 * (len(latencies) - 1))], 2),
    }
    return found


def _alone(rehearsal: Rehearsal, row: int, pair: LabelledPair) -> MemoryJudge:
    judge = rehearsal.judging()
    judge.put(row + 1, "tenant", _where(pair.a))
    return judge


def _ask(judge: MemoryJudge, row: int, pair: LabelledPair, rule: tuple[Least, float, Pool]) -> Outcome:
    least, delta, pool = rule
    where = _where(pair.b)
    begun = time.perf_counter()
    nominated = judge.nominate(Ask(where.partition, where.family, where.question, _LIMIT))
    latency_ms = 1000 * (time.perf_counter() - begun)
    best = served(nominated.candidates, least, pool)
    if best is None:
        return pair, None, 0.0, latency_ms
    at_once = 1.0 - exploration(chance_of(best, pool), delta)
    which = "own" if best.row == row + 1 else "repeated" if best.probability == 1.0 else "other"
    return pair, which, at_once, latency_ms


def served(candidates: Iterable[Candidate], least: Least, pool: Pool) -> Candidate | None:
    """The candidate that answers, as the gateway chooses it; None when none may."""
    best = next((candidate for candidate in candidates if candidate.veto is None), None)
    return best if best is not None and chance_of(best, pool) >= least.of(best) else None


def chance_of(candidate: Candidate, pool: Pool) -> float:
    """The chance that a candidate's answer is right, as the error budget reckons it."""
    return pool.chance(score_of(candidate.probability or 0.0), None)


def _where(messages: Sequence[Any]) -> Place:
    where = place({"messages": list(messages)}, Namespace("tenant", "chat", "bench/model"))
    assert isinstance(where, Place), where
    return where


def _shares(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": len(outcomes)}
    for name, label in (("same", True), ("traps", False)):
        some = [outcome for outcome in outcomes if outcome[0].same is label]
        if not some:
            continue
        hits = [outcome for outcome in some if outcome[1] in ("own", "other")]
        low, high = wilson(len(hits) / len(some), len(some))
        found[f"{name}_rows"] = len(some)
        found[f"served_{name}"] = round(len(hits) / len(some), 4)
        found[f"served_{name}_interval"] = [round(low, 4), round(high, 4)]
        found[f"served_{name}_at_once"] = round(sum(outcome[2] for outcome in some) / len(some), 4)
        for which in ("other", "repeated"):
            by_others = sum(outcome[1] == which for outcome in some)
            if by_others:
                found[f"served_{name}_by_{which}_row"] = round(by_others / len(some), 4)
    return found
