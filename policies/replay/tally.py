"""What a policy did over a log: hits, wrong hits with their intervals, and what was saved; per layer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from policies.intervals import Interval, trials_for, wilson
from policies.replay.line import Line

LAYERS = ("exact", "semantic")
_PER_MILLION = 1e6
_MOST_POINTS = 240


class Outcome(msgspec.Struct, frozen=True):
    """What became of one request.

    Attributes:
        layer: that answered; None for the model.
        reason: why, as metrics name it.
        right: whether a hit was right; None when the log cannot tell, or for the model.
    """

    layer: str | None
    reason: str
    right: bool | None = None


class Prices(msgspec.Struct, frozen=True):
    """Of a million tokens, in any currency."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Of so many."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / _PER_MILLION


class Counts(msgspec.Struct):
    """One layer's part.

    Attributes:
        unknown: hits of which the log cannot tell whether they were right.
        latency_ms: that models took for the same requests in the log.
    """

    hits: int = 0
    wrong: int = 0
    unknown: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0

    def add(self, line: Line, right: bool | None) -> None:
        """Counts a hit."""
        self.hits += 1
        self.wrong += right is False
        self.unknown += right is None
        self.prompt_tokens += line.prompt_tokens
        self.completion_tokens += line.completion_tokens
        self.latency_ms += line.latency_ms


class Tally:
    """One policy's count over a log; lines come in order.

    Attributes:
        requests: so far.
        layers: by name.
        misses: by reason.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.layers = {name: Counts() for name in LAYERS}
        self.misses: Counter[str] = Counter()
        self._course: list[tuple[float, int]] = []
        self._every = 1

    def add(self, line: Line, outcome: Outcome) -> None:
        """Counts one request."""
        self.requests += 1
        if outcome.layer is None:
            self.misses[outcome.reason] += 1
        else:
            self.layers[outcome.layer].add(line, outcome.right)
        if self.requests % self._every == 0:
            self._course.append((line.t_s, self.hits))
            if len(self._course) >= 2 * _MOST_POINTS:
                self._course = self._course[1::2]
                self._every *= 2

    @property
    def hits(self) -> int:
        """Of all layers."""
        return sum(layer.hits for layer in self.layers.values())

    @property
    def wrong(self) -> int:
        """Hits known to be wrong."""
        return sum(layer.wrong for layer in self.layers.values())

    @property
    def unknown(self) -> int:
        """Hits of which the log cannot tell."""
        return sum(layer.unknown for layer in self.layers.values())

    @property
    def hit_share(self) -> float:
        """Hits in all requests, 0 to 1."""
        return self.hits / self.requests if self.requests else 0.0

    def wrong_of_all(self) -> tuple[float, Interval]:
        """Known wrong answers in all requests, with the 95 % interval."""
        share = self.wrong / self.requests if self.requests else 0.0
        return share, wilson(share, self.requests)

    def wrong_of_hits(self) -> tuple[float, Interval]:
        """Wrong answers in the hits that could be judged, with the 95 % interval."""
        judged = self.hits - self.unknown
        share = self.wrong / judged if judged else 0.0
        return share, wilson(share, judged)

    def most_wrong(self) -> float:
        """Upper 95 % bound of wrong answers in all requests, where what cannot be judged counts as wrong."""
        share = (self.wrong + self.unknown) / self.requests if self.requests else 0.0
        return wilson(share, self.requests).high

    def course(self) -> list[tuple[float, int]]:
        """(seconds, hits so far), evenly thinned."""
        return list(self._course)

    def as_json(self, prices: Prices) -> dict[str, Any]:
        """Everything, for machines."""
        of_all, all_interval = self.wrong_of_all()
        of_hits, hits_interval = self.wrong_of_hits()
        return {
            "requests": self.requests,
            "hits": self.hits,
            "hit_share": self.hit_share,
            "wrong": self.wrong,
            "unknown": self.unknown,
            "wrong_of_all": {"share": of_all, "low": all_interval.low, "high": all_interval.high},
            "wrong_of_hits": {"share": of_hits, "low": hits_interval.low, "high": hits_interval.high},
            "most_wrong_of_all": self.most_wrong(),
            "layers": {name: _told(layer, prices) for name, layer in self.layers.items()},
            "misses": dict(self.misses.most_common()),
        }


def enough_for(share: float) -> int:
    """Requests without a single wrong answer that it takes until the bound is at most a share."""
    return int(trials_for(share)) + 1


def _told(layer: Counts, prices: Prices) -> Mapping[str, float]:
    return {
        "hits": layer.hits,
        "wrong": layer.wrong,
        "unknown": layer.unknown,
        "prompt_tokens_saved": layer.prompt_tokens,
        "completion_tokens_saved": layer.completion_tokens,
        "cost_saved": prices.cost(layer.prompt_tokens, layer.completion_tokens),
        "latency_saved_ms": layer.latency_ms,
    }
