"""What a replay found, for machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.replay.run import Replayed
from gateway.replay.tune import Tuned, recommended
from policies.replay import Prices


@dataclass(frozen=True, slots=True)
class Report:
    """One replay.

    Attributes:
        log: the file's name.
        requests, tenants: in the log; `labelled` requests have an answer id or a cluster.
        span_s: from the first to the last.
        results: one per policy.
        chosen: name of the policy that is held against `max_wrong`.
        max_wrong: None when nothing is to be held.
        tuned: None when nothing was tuned.
        verifies: whether the semantic layer had its verifier; None when it was not replayed.
    """

    log: str
    requests: int
    tenants: int
    labelled: int
    span_s: float
    results: Sequence[Replayed]
    chosen: str
    max_wrong: float | None
    tuned: Tuned | None
    prices: Prices
    verifies: bool | None

    @property
    def judged(self) -> Replayed:
        """What the bound is held against: the tuned settings on lines that had no say, else the chosen policy."""
        if self.tuned is not None:
            return self.tuned.checked
        return next(one for one in self.results if one.name == self.chosen)

    @property
    def keeps(self) -> bool:
        """Whether the bound holds; so it does when there is none."""
        return self.max_wrong is None or self.judged.tally.most_wrong() <= self.max_wrong

    def as_json(self) -> Mapping[str, Any]:
        """Everything but the courses of hits over time."""
        return {
            "log": self.log,
            "requests": self.requests,
            "tenants": self.tenants,
            "labelled": self.labelled,
            "span_s": self.span_s,
            "policies": {one.name: one.tally.as_json(self.prices) for one in self.results},
            "chosen": self.judged.name,
            "max_wrong": self.max_wrong,
            "keeps": self.keeps,
            "tuned": None if self.tuned is None else self._tuned(self.tuned),
            "verifier": self.verifies,
        }

    def _tuned(self, tuned: Tuned) -> Mapping[str, Any]:
        rules = tuned.rules
        return {
            "max_wrong": rules.max_wrong,
            "min_probability": rules.min_probability,
            "keeps": tuned.keeps,
            "tuning": tuned.tuning.tally.as_json(self.prices),
            "checked": tuned.checked.tally.as_json(self.prices),
            "toml": recommended(rules),
        }
