"""The semantic part: candidates with everything that speaks for and against them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.db import SemanticRow, SemanticRows
from gateway.errors import SemanticUnavailable
from gateway.explain.entries import Court
from gateway.explain.findings import CandidateFinding, EntryFinding, MeaningFinding
from gateway.explain.word_lists import WordLists
from gateway.guards import subject_of
from gateway.layers.semantic import Proven, SemanticLayer, Unfit
from gateway.routes import Route
from gateway.semantic_link import SemanticLink
from gateway.settings import CacheSettings, SemanticSettings
from policies.budget import Decision, Refuse, Serve
from policies.keys import CacheKey
from policies.nomination import Ask, Candidate, Nominated
from policies.questions import NoQuestion, Place, place
from policies.semantic import SAME_QUESTION, eligible, reason_of, refusal_of
from policies.vetoes import VETOES

_DEADLINE_S = 3.0
_LIMIT = 8
_VETOES = frozenset(VETOES)

Weigh = Callable[[str, str, Candidate, str, bool], tuple[Decision, Mapping[str, float | str]]]
"""Tenant's id, route, candidate, fingerprint, whether hits may be served → the decision and its figures."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the semantic part looks."""

    link: SemanticLink
    layer: SemanticLayer
    rows: SemanticRows
    weigh: Weigh
    words: WordLists
    cache: CacheSettings
    semantic: SemanticSettings


@dataclass(frozen=True, slots=True)
class Seeking:
    """Who asks what, and where.

    Attributes:
        key: the request's exact key.
        serving: false where hits are only counted.
        read: whether the request lets a stored answer be used.
    """

    tenant_id: str
    target: Route
    court: Court
    key: CacheKey
    serving: bool
    read: bool


class Meaning:
    """Explains the semantic part of a walk."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def find(self, seeking: Seeking) -> MeaningFinding:
        """What the layer would do now; asks the service, and waits longer than a request would.

        Raises:
            DatabaseUnavailable: the rows cannot be read.
        """
        where = await self._place(seeking)
        if isinstance(where, str):
            return MeaningFinding(asked=False, reason=where)
        try:
            return await self._judged(seeking, where)
        except SemanticUnavailable as error:
            return MeaningFinding(asked=True, reason=f"semantic_{error.reason}")

    async def _place(self, seeking: Seeking) -> Place | str:
        """Where the question is compared, or why it is not."""
        court, controls = seeking.court, seeking.court.controls
        if seeking.target.mode not in ("semantic", "observe") or controls.mode == "exact":
            return "mode"
        if controls.caller_key is not None:
            return "caller_key"
        if not seeking.read:
            return "request"
        namespace = seeking.target.namespace(seeking.tenant_id, controls)
        where = place(court.body, namespace, self._sources.cache.ignored_fields)
        if isinstance(where, NoQuestion):
            return where.reason
        subject = subject_of(court.body, scope=controls.scope.kind)
        verdicts = await asyncio.to_thread(court.guards.verdicts, subject)
        hidden = court.guards.hidden
        return "unclean" if any(verdict.guard in hidden for verdict in verdicts) else where

    async def _judged(self, seeking: Seeking, where: Place) -> MeaningFinding:
        sources = self._sources
        nominated = await sources.link.nominate(self._ask(where), _DEADLINE_S)
        candidates = nominated.candidates
        rows = await sources.rows.find([candidate.row for candidate in candidates])
        due_s = asyncio.get_running_loop().time() + _DEADLINE_S
        proven = await sources.layer.prove(seeking.tenant_id, where, candidates, due_s)
        found = [
            await asyncio.to_thread(self._weighed, seeking, where, one, row, nominated.models)
            for one, row in zip(
                ((candidate, rows.get(candidate.row)) for candidate in candidates), proven, strict=True
            )
        ]
        best, decision, reason = _outcome(nominated, found, serving=seeking.serving)
        share = _served_share(best) if best is not None else 0.0
        return MeaningFinding(True, reason, decision, share, nominated.models, nominated.spent_ms, found)

    def _ask(self, where: Place) -> Ask:
        semantic = self._sources.semantic
        family = where.family if semantic.conversations else where.partition
        return Ask(where.partition, family, where.question, max(_LIMIT, semantic.limit))

    def _weighed(
        self,
        seeking: Seeking,
        where: Place,
        nominee: tuple[Candidate, SemanticRow | None],
        proven: Proven | Unfit,
        models: str,
    ) -> CandidateFinding:
        candidate, row = nominee
        question = None if row is None else self._sources.layer.question_of(row)
        own = isinstance(proven, Proven) and proven.key == seeking.key.digest
        decision, budget = self._budget(seeking, candidate, models, own=own)
        entry = self._entry(seeking, proven)
        return CandidateFinding(
            row=candidate.row,
            question=None if question is None else question.text,
            similarity=round(candidate.similarity, 4),
            how=candidate.how,
            veto=candidate.veto,
            vetoes=self._sources.words.vetoes(question, where.question) if question is not None else (),
            probability=candidate.probability,
            budget=budget,
            entry=entry,
            refused=_refused(candidate, decision, proven, entry),
        )

    def _budget(
        self, seeking: Seeking, candidate: Candidate, models: str, *, own: bool
    ) -> tuple[Decision | None, Mapping[str, Any] | None]:
        """What the budget would say of a candidate that it is asked of, by the luckiest draw."""
        if candidate.veto is not None or candidate.probability is None:
            return None, None
        if own and candidate.similarity >= SAME_QUESTION:
            return Serve(1.0, 0.0), {"decision": "serve", "reason": "itself"}
        tenant_id, route = seeking.tenant_id, seeking.target.name
        decision, figures = self._sources.weigh(tenant_id, route, candidate, models, seeking.serving)
        told = {
            "decision": type(decision).__name__.lower(),
            "reason": decision.reason,
            "chance": round(decision.chance, 5),
            "explored": round(decision.explore, 5),
        }
        return decision, {**told, **figures}

    def _entry(self, seeking: Seeking, proven: Proven | Unfit) -> EntryFinding | None:
        if isinstance(proven, Unfit):
            return None
        opened = proven.opened
        return seeking.court.judge(opened.entry, len(opened.stored), by_meaning=True)


def _refused(
    candidate: Candidate, decision: Decision | None, proven: Proven | Unfit, entry: EntryFinding | None
) -> str | None:
    """The rule that says no to a candidate, in the walk's order."""
    if candidate.veto is not None:
        return refusal_of((candidate,), _VETOES)
    if decision is None:
        return "semantic_unjudged"
    if isinstance(decision, Refuse) and decision.reason not in ("observe", "suspended"):
        return reason_of(decision)
    if isinstance(proven, Unfit):
        return proven.reason
    if entry is not None and entry.decision == "miss":
        return f"semantic_{entry.reason}"
    return None if isinstance(decision, Serve) else reason_of(decision)


def _served_share(one: CandidateFinding) -> float:
    """The draws that neither explore nor audit."""
    figures = one.budget or {}
    explored, audited = (float(figures.get(name, 0.0)) for name in ("explored", "audit_share"))
    return round((1 - explored) * (1 - audited), 4)


def _outcome(
    nominated: Nominated, found: Sequence[CandidateFinding], *, serving: bool
) -> tuple[CandidateFinding | None, str, str]:
    """The candidate that answers, the decision and its rule: the best one that is not refused, else why it is."""
    by_row = {one.row: one for one in found}
    best = [by_row[candidate.row] for candidate in eligible(nominated.candidates)]
    for one in best:
        if one.refused is None or (not serving and one.refused == "semantic_observe"):
            stale = one.entry is not None and one.entry.decision == "stale"
            if not serving:
                return one, "would_hit", "observe"
            return one, "stale" if stale else "hit", "semantic"
    if best:
        return None, "miss", best[0].refused or "semantic_none"
    return None, "miss", refusal_of(nominated.candidates, _VETOES)
