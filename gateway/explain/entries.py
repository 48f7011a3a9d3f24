"""A stored answer judged as the walk would, with everything that the walk only counts."""

from dataclasses import dataclass

from gateway.explain.findings import EntryFinding
from gateway.guards import Guards, subject_of
from gateway.layers.entry import Entry
from policies.controls import Controls
from policies.decide import Hit, Life, Stale, judge
from policies.freshness import StaleRules, revalidating
from policies.guardrails.judgement import decide
from policies.purges import PurgeIndex
from policies.types import Json


@dataclass(frozen=True, slots=True)
class Court:
    """What entries are judged by, for one request; `key_hex` is its own key, empty where it has none."""

    purges: PurgeIndex
    controls: Controls
    body: Json
    guards: Guards
    now_s: float
    stale: StaleRules
    key_hex: str = ""

    def judge(self, entry: Entry, stored_bytes: int, *, by_meaning: bool) -> EntryFinding:
        """The entry's own state; whether it may be found by meaning is asked of semantic rows."""
        made = entry.made()
        if by_meaning and self.key_hex:
            made = made.under(self.key_hex)
        purged = self.purges.verdict(made, entry.as_of)
        life = Life(entry.created_s, entry.ttl_s)
        decision = judge(life, purged, self.controls, self.now_s)
        if not by_meaning:
            decision = revalidating(decision, life, self.stale, self.now_s)
        allowed, reasons = self._allowed(entry, stored_bytes, by_meaning=by_meaning)
        word, reason = "miss", decision.reason
        if isinstance(decision, Hit | Stale):
            word = ("hit" if isinstance(decision, Hit) else "stale") if allowed else "miss"
            reason = decision.reason if allowed else "guard"
        age_s = self.now_s - entry.created_s
        return EntryFinding(
            decision=word,
            reason=reason,
            age_s=round(age_s, 3),
            ttl_s=round(entry.ttl_s - age_s, 3),
            purged=purged,
            policy=entry.policy,
            guards=reasons,
            request_id=entry.request_id,
            tags=entry.tags,
            source=entry.source.hex(),
        )

    def _allowed(self, entry: Entry, stored_bytes: int, *, by_meaning: bool) -> tuple[bool, tuple[str, ...]]:
        """Whether the guards of today allow it, and what they say; those that let it in are not asked again."""
        if entry.policy == self.guards.policy_version:
            return True, ()
        scope = self.controls.scope.kind
        subject = subject_of(self.body, entry.response(), scope=scope, size=stored_bytes)
        verdicts = self.guards.verdicts(subject)
        decision = decide(verdicts, subject, self.guards.hidden)
        return decision.semantic if by_meaning else decision.exact, decision.reasons
