"""The exact part of the walk: what came from Redis is opened, judged by life, purges and guards, and counted."""

import time
from collections.abc import Callable

from gateway.early import EarlyRefreshes
from gateway.guards import Guards, subject_of
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import ExactLayer, Found
from gateway.layers.opened import Opened, OpenedEntries
from gateway.telemetry.metrics import Metrics
from gateway.walk import Walk
from policies.decide import Hit, Lookup, Miss, Stale, judge
from policies.freshness import StaleRules, excused, revalidating
from policies.keys import CacheKey
from policies.types import token_counts

_MAX_ALLOWED = 1024
_RESULTS = {Hit: "hit", Stale: "stale", Miss: "miss"}


class ExactWalk:
    """Decides whether an entry of the exact layer answers.

    Args:
        rules: what the operator allows past an entry's life.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        exact: ExactLayer,
        sealer: Sealer,
        guards: Guards,
        metrics: Metrics,
        *,
        rules: StaleRules,
        now_s: Callable[[], float],
    ) -> None:
        self._exact = exact
        self._opened = OpenedEntries(sealer)
        self._guards = guards
        self._metrics = metrics
        self._rules = rules
        self._now_s = now_s
        self._early = EarlyRefreshes(rules.beta)
        self._allowed: dict[bytes, Opened] = {}

    async def decide(
        self, walk: Walk, key: CacheKey, found: Found | None, begun: float
    ) -> tuple[Hit | Stale | Miss, Opened | None]:
        """The decision, and the entry when there is an authentic one.

        Args:
            walk: the request; its plan is a look-up.
            key: its key.
            found: what Redis said; None when it said nothing.
            begun: when the look-up began, for the metric.
        """
        plan = walk.plan
        assert isinstance(plan, Lookup)  # noqa: S101  (narrowing: only a look-up is decided)
        if found is None:
            return Miss("store_unavailable"), None
        if not plan.read:
            self._metrics.lookup("exact", "miss", "request", 0.0)
            return Miss("request"), self._judged(walk, key, found)[0]  # to compare the fresh answer with
        entry, decision = self._judged(walk, key, found)
        if (
            entry is not None
            and not isinstance(decision, Miss)
            and not await self._still_allowed(walk, key, entry)
        ):
            decision = Miss("guard")
        result = _RESULTS[type(decision)]
        if not plan.serve:
            result = f"would_{result}"
            if not isinstance(decision, Miss):
                self._metrics.would_save("exact", *token_counts(entry.response.usage if entry else None))
                decision = Miss("observe")
        self._metrics.lookup("exact", result, decision.reason, time.perf_counter() - begun)
        return decision, entry

    def _judged(self, walk: Walk, key: CacheKey, found: Found) -> tuple[Opened | None, Hit | Stale | Miss]:
        if found.value is None:
            return None, Miss("absent")
        replica = walk.replica
        try:
            opened = self._opened.open(found.value, replica.tenant_id, key.digest)
        except EntryError as error:
            self._metrics.fault("exact", f"entry_{error.reason}")
            self._exact.drop(replica.tenant_id, key.hex)
            return None, Miss("corrupt")
        if opened.entry.source and "exact" in {walk.controls.mode, walk.target.mode}:
            return None, Miss("copy")
        purged = None
        if not replica.purges.nothing_since(opened.entry.as_of):
            purged = replica.purges.verdict(opened.entry.made(), opened.entry.as_of)
        now_s = self._now_s()
        decision = judge(opened.life, purged, walk.controls, now_s)
        return opened, revalidating(decision, opened.life, self._rules, now_s)

    def refreshes_early(self, opened: Opened, decision: Hit) -> bool:
        """Whether this hit refreshes its entry ahead of its end; to be asked once per hit."""
        return self._early.wanted(opened, decision.ttl_s)

    async def excuse(self, walk: Walk, key: CacheKey, opened: Opened, decision: Miss) -> Stale | None:
        """How the entry may be served should the model fail; None when it may not."""
        stale = excused(decision.reason, opened.life, self._rules, self._now_s())
        return stale if stale is not None and await self._still_allowed(walk, key, opened) else None

    async def _still_allowed(self, walk: Walk, key: CacheKey, opened: Opened) -> bool:
        """Whether the guards of today allow what was stored under others; remembered for the same bytes."""
        guards, policy = self._guards, opened.entry.policy
        if policy == guards.policy_version or self._allowed.get(key.digest) is opened:
            return True
        scope = walk.controls.scope.kind
        subject = subject_of(walk.asked.request.body, opened.response, scope=scope, size=len(opened.stored))
        allowed = (await guards.judge_hit(subject, policy)).exact
        if allowed:
            if len(self._allowed) >= _MAX_ALLOWED:
                self._allowed.clear()
            self._allowed[key.digest] = opened
        return allowed
