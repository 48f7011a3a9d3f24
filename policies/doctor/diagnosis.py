"""Findings summed up: which fields break prefixes, how often, and what that costs."""

from collections.abc import Iterable, Sequence

import msgspec

from policies.doctor.examination import Finding
from policies.doctor.remedies import REMEDIES


class Ailment(msgspec.Struct):
    """One field of one tenant's prompts that broke prefixes.

    Attributes:
        kind: see `remedies`.
        place: path of the part.
        requests: how many prompts it broke.
        lost_tokens: prompt tokens that were computed again because of it.
        before, now: an example, shortened; texts of the user.
    """

    tenant: str
    model: str
    kind: str
    place: str
    requests: int = 0
    lost_tokens: float = 0.0
    before: str = ""
    now: str = ""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES.get(self.kind, "")


class Diagnosis(msgspec.Struct):
    """What was found in a run of prompts.

    Attributes:
        requests: prompts that came.
        compared: of those, prompts that had a recent one to compare with.
        tokens: prompt tokens of all.
        kept_tokens: that a prefix cache can reuse as things are.
        lost_tokens: that it could besides.
        ailments: the most costly first.
    """

    requests: int
    compared: int
    tokens: float
    kept_tokens: float
    lost_tokens: float
    ailments: list[Ailment]


class Chart:
    """Sums findings up as they come.

    Args:
        quoted: whether examples are kept; they quote prompts.
        most: ailments that are told apart; findings of others count in the whole alone.
    """

    def __init__(self, *, quoted: bool = True, most: int = 10_000) -> None:
        self._quoted = quoted
        self._most = most
        self._known: dict[tuple[str, ...], Ailment] = {}
        self._whole = Diagnosis(0, 0, 0.0, 0.0, 0.0, [])

    def add(self, finding: Finding) -> None:
        """Takes in a finding."""
        whole = self._whole
        whole.requests += 1
        whole.compared += finding.divergence.kind != "first"
        whole.tokens += finding.tokens
        whole.kept_tokens += finding.kept_tokens
        if finding.healthy:
            return
        whole.lost_tokens += finding.lost_tokens
        ailment = self._ailment(finding)
        if ailment is not None:
            ailment.requests += 1
            ailment.lost_tokens += finding.lost_tokens

    def _ailment(self, finding: Finding) -> Ailment | None:
        named = (*finding.group, finding.divergence.kind, finding.place)
        ailment = self._known.get(named)
        if ailment is None and len(self._known) < self._most:
            quotes = (finding.divergence.before, finding.divergence.now) if self._quoted else ("", "")
            ailment = self._known[named] = Ailment(*named, before=quotes[0], now=quotes[1])
        return ailment

    def diagnosis(self) -> Diagnosis:
        """The findings so far, by tenant, model, kind and place, the most costly first."""
        found = msgspec.structs.replace(self._whole)
        found.ailments = sorted(self._known.values(), key=lambda one: -one.lost_tokens)
        return found


def summed_up(findings: Iterable[Finding]) -> Diagnosis:
    """The findings by tenant, model, kind and place."""
    chart = Chart()
    for finding in findings:
        chart.add(finding)
    return chart.diagnosis()


def merged(some: Sequence[Diagnosis]) -> Diagnosis:
    """Several workers' diagnoses as one."""
    known: dict[tuple[str, ...], Ailment] = {}
    for ailment in (one for diagnosis in some for one in diagnosis.ailments):
        named = (ailment.tenant, ailment.model, ailment.kind, ailment.place)
        other = known.setdefault(named, Ailment(*named, before=ailment.before, now=ailment.now))
        other.requests += ailment.requests
        other.lost_tokens += ailment.lost_tokens
    return Diagnosis(
        sum(one.requests for one in some),
        sum(one.compared for one in some),
        sum(one.tokens for one in some),
        sum(one.kept_tokens for one in some),
        sum(one.lost_tokens for one in some),
        sorted(known.values(), key=lambda one: -one.lost_tokens),
    )
