"""The semantic part of the walk, after an exact miss: may the question be compared, may what is found answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from gateway.asked import Audit
from gateway.errors import SemanticUnavailable, StoreUnavailable
from gateway.guards import Guards, subject_of
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import ExactLayer
from gateway.layers.opened import Opened
from gateway.layers.semantic import Proven, SemanticLayer
from gateway.settings import CacheSettings
from gateway.telemetry.metrics import Metrics
from gateway.walk import Walk
from policies.budget import Decision, Explore, Refuse, Serve, would_serve
from policies.decide import Hit, Lookup, Miss, Stale, judge
from policies.keys import CacheKey, Namespace
from policies.nomination import Candidate, Nominated
from policies.persons import made_for
from policies.questions import NoQuestion, Place, place
from policies.semantic import SAME_QUESTION, eligible, reason_of, refusal_of
from policies.types import token_counts
from policies.vetoes import VETOES

_VETOES = frozenset({*VETOES, "fault"})
_RESULTS = {Hit: "hit", Stale: "stale"}
_ITSELF = Serve(1.0, 0.0)
"""The very same request, whose exact entry is gone: nothing to doubt, and nothing to learn."""


class Budget(Protocol):
    """Says which candidates may answer, and learns; the error budget of a tenant and route."""

    def decide(self, tenant_id: str, route: str, candidate: Candidate, models: str, *, serving: bool) -> Decision:
        """Whether a candidate that a verifier has judged may answer; called once per candidate, in order."""
        ...

    def came(self, tenant_id: str, route: str, models: str) -> None:
        """A request came, with or without candidates; called once, before `decide`."""
        ...


@dataclass(frozen=True, slots=True)
class Sought:
    """What became of it.

    Attributes:
        decision: a miss has one of policies.semantic.MISSES as its reason.
        found: the row that answers; None on a miss.
        audit: what is to be compared with the model's answer, or None.
    """

    decision: Hit | Stale | Miss
    found: Proven | None = None
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What the semantic walk passes through; built in wiring.

    Attributes:
        clock_s: seconds since the epoch.
    """

    layer: SemanticLayer
    exact: ExactLayer
    sealer: Sealer
    guards: Guards
    budget: Budget
    metrics: Metrics
    cache: CacheSettings
    clock_s: Callable[[], float]


class SemanticWalk:
    """Looks for a stored answer to a question that means the same."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._layer = parts.layer
        self._metrics = parts.metrics

    @property
    def budget(self) -> Budget:
        """What says which candidates may answer."""
        return self._parts.budget

    async def place(self, walk: Walk, namespace: Namespace) -> Place | None:
        """Where the question may be compared; None where meaning is not compared, and why is counted.

        A key of the caller's own says what is the same, so meaning has no say then.
        """
        asked, controls = walk.asked, walk.controls
        by_meaning = walk.target.mode in ("semantic", "observe") and controls.mode != "exact"
        if not by_meaning or controls.caller_key is not None:
            return None
        where = place(asked.request.body, namespace, self._parts.cache.ignored_fields)
        if isinstance(where, NoQuestion):
            self._skipped(where.reason)
            return None
        subject = subject_of(asked.request.body, scope=controls.scope.kind)
        if await self._parts.guards.question_is_clean(subject):
            self._skipped("unclean")
            return None
        return where

    async def seek(self, walk: Walk, where: Place) -> Sought:
        """The best row that may answer, or why none does; never raises, and takes at most the deadline."""
        begun = time.perf_counter()
        try:
            sought = await self._seek(walk, where)
        except SemanticUnavailable as error:
            sought = Sought(Miss(f"semantic_{error.reason}"))
            self._count("unavailable", error.reason, begun)
            return sought
        decision = sought.decision
        if isinstance(decision, Miss):
            self._count("miss", decision.reason, begun)
            return sought
        result = _RESULTS[type(decision)]
        if not _serves(walk):
            result = f"would_{result}"
            usage = sought.found.opened.response.usage if sought.found else None
            self._metrics.would_save("semantic", *token_counts(usage))
            sought = Sought(Miss("observe"), audit=sought.audit)
        self._count(result, decision.reason, begun)
        return sought

    async def _seek(self, walk: Walk, where: Place) -> Sought:
        due_s = self._layer.due_s()
        nominated = await self._layer.nominate(where, due_s)
        self._parts.budget.came(walk.replica.tenant_id, walk.target.name, nominated.models)
        wanted, refused = self._wanted(walk, nominated)
        if not wanted:
            return Sought(Miss(refused))
        rows = await self._layer.prove(
            walk.replica.tenant_id, where, [candidate for candidate, _ in wanted], due_s
        )
        reason = refused
        for (_, verdict), row in zip(wanted, rows, strict=True):
            if not isinstance(row, Proven):
                reason = row.reason
                continue
            sought = await self._offer(walk, row, verdict, nominated.models)
            if not isinstance(sought.decision, Miss) or sought.audit is not None:
                return sought
            reason = sought.decision.reason
        return Sought(Miss(reason))

    def _wanted(self, walk: Walk, nominated: Nominated) -> tuple[list[tuple[Candidate, Decision]], str]:
        """Candidates worth a look at their row, with what the budget says of each; and why there are no more.

        One that may be the same question to the byte is looked at whatever the budget says.
        """
        tenant_id, route = walk.replica.tenant_id, walk.target.name
        wanted: list[tuple[Candidate, Decision]] = []
        reason = refusal_of(nominated.candidates, _VETOES)
        for candidate in eligible(nominated.candidates):
            verdict = self._parts.budget.decide(
                tenant_id, route, candidate, nominated.models, serving=_serves(walk)
            )
            refused = isinstance(verdict, Refuse) and not would_serve(verdict)
            if isinstance(verdict, Refuse):
                reason = reason_of(verdict)
            if not refused or candidate.similarity >= SAME_QUESTION:
                wanted.append((candidate, verdict))
            if refused:
                break
        return wanted, reason

    async def _offer(self, walk: Walk, row: Proven, verdict: Decision, models: str) -> Sought:
        """Whether this row answers: its life, purges, the guards, then the budget."""
        decision = self._judged(walk, row.opened)
        if isinstance(decision, Miss):
            return Sought(Miss(f"semantic_{decision.reason}"))
        if not await self._still_allowed(walk, row.opened):
            return Sought(Miss("semantic_guard"))
        if walk.key is not None and row.key == walk.key.digest:
            verdict = _ITSELF
        if isinstance(verdict, Explore):
            audit = Audit(
                walk.replica.tenant_id, walk.target.name, row.candidate, models, verdict, row.opened.response
            )
            would = would_serve(verdict) and not _serves(walk)
            return Sought(decision if would else Miss(reason_of(verdict)), row, audit)
        if isinstance(verdict, Refuse) and (_serves(walk) or not would_serve(verdict)):
            return Sought(Miss(reason_of(verdict)))
        if isinstance(decision, Hit):
            decision = Hit(decision.age_s, decision.ttl_s, "semantic")
        return Sought(decision, row)

    def copy(self, walk: Walk, key: CacheKey, found: Proven) -> None:
        """Queues the answer as an exact entry under the asked request's own key.

        The copy is as old as its source and lives no longer, and whatever purges the source purges the copy.
        """
        source, controls = found.opened.entry, walk.controls
        age_s = max(0.0, self._parts.clock_s() - source.created_s)
        ttl_s = source.ttl_s if controls.ttl_s is None else min(source.ttl_s, age_s + controls.ttl_s)
        entry = replace(
            source,
            key=key.digest,
            ttl_s=ttl_s,
            tags=tuple(dict.fromkeys((*source.tags, *controls.tags))),
            about=b"",
            parts={},
            whose=tuple(dict.fromkeys((*source.made().whose, *made_for(controls, walk.asked.request.body)))),
            source=found.key,
        )
        cache = self._parts.cache
        try:
            sealed = self._parts.sealer.seal(entry)
        except EntryError as error:
            self._metrics.write("exact", "lost", error.reason)
            return
        if len(sealed) > cache.max_entry_bytes or ttl_s <= age_s:
            return
        try:
            reply = self._parts.exact.write(source.tenant_id, key.hex, sealed, ttl_s - age_s + cache.kept_s)
        except StoreUnavailable:
            reply = None
        if reply is not None:
            reply.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._metrics.write("exact", "copied" if reply is not None else "lost", "semantic")

    def _judged(self, walk: Walk, opened: Opened) -> Hit | Stale | Miss:
        """The row's state; a purge of the very key that is asked for names it too, or its answer would be back."""
        entry = opened.entry
        purges, purged = walk.replica.purges, None
        if not purges.nothing_since(entry.as_of):
            made = entry.made()
            purged = purges.verdict(made if walk.key is None else made.under(walk.key.hex), entry.as_of)
        return judge(opened.life, purged, walk.controls, self._parts.clock_s())

    async def _still_allowed(self, walk: Walk, opened: Opened) -> bool:
        """Whether the guards of today would let the answer be compared by meaning."""
        scope = walk.controls.scope.kind
        subject = subject_of(walk.asked.request.body, opened.response, scope=scope, size=len(opened.stored))
        return (await self._parts.guards.judge_hit(subject, opened.entry.policy)).semantic

    def _skipped(self, reason: str) -> None:
        self._metrics.lookup("semantic", "skipped", reason, 0.0)

    def _count(self, result: str, reason: str, begun: float) -> None:
        self._metrics.lookup("semantic", result, reason, time.perf_counter() - begun)


def _serves(walk: Walk) -> bool:
    """Whether a hit may be served; false in observe mode."""
    return isinstance(walk.plan, Lookup) and walk.plan.serve
