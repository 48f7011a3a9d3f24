"""Figures over time: small tallies that add up in any order, and percentiles out of logarithmic buckets; pure."""

import math
from collections.abc import Iterable, Mapping

import msgspec

PER_OCTAVE = 4
"""Buckets to an octave, from LEAST_MS to a quarter of an hour; an estimate is within 9 %."""

LEAST_MS = 0.0625
_LAST = PER_OCTAVE * 24


class Tally(msgspec.Struct, omit_defaults=True):
    """What happened in one span of time.

    Attributes:
        errors: requests that ended badly, clients that left among them.
        latency_us: of all of them together.
        saved_tokens: prompts and answers that no model had to compute.
        cost_pico, saved_pico: picodollars, where prices are known.
        buckets: how many requests took how long.
    """

    requests: int = 0
    errors: int = 0
    latency_us: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    saved_tokens: int = 0
    cost_pico: int = 0
    saved_pico: int = 0
    buckets: dict[int, int] = {}

    def add(self, other: "Tally") -> None:
        """Adds another one up."""
        self.requests += other.requests
        self.errors += other.errors
        self.latency_us += other.latency_us
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.saved_tokens += other.saved_tokens
        self.cost_pico += other.cost_pico
        self.saved_pico += other.saved_pico
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def percentile_ms(self, share: float) -> float | None:
        """The latency that this share of requests stays below; None without requests.

        Args:
            share: in (0, 1].
        """
        wanted, seen = share * sum(self.buckets.values()), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return middle_ms(bucket)
        return None


def bucket_of(latency_ms: float) -> int:
    """Which bucket a latency falls into."""
    if latency_ms <= LEAST_MS:
        return 0
    return min(_LAST, int(PER_OCTAVE * math.log2(latency_ms / LEAST_MS)))


def middle_ms(bucket: int) -> float:
    """The middle of a bucket, in proportion."""
    return round(LEAST_MS * math.exp2((bucket + 0.5) / PER_OCTAVE), 6)


def slots(now_s: float, step_s: int, count: int) -> list[int]:
    """The numbers of the latest slots, oldest first, the one under way last."""
    last = int(now_s // step_s)
    return list(range(last - count + 1, last + 1))


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies; none of them is changed."""
    made = Tally()
    for one in tallies:
        made.add(one)
    return made


def merged(parts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """Tallies by name, added up; none of them is changed."""
    made: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            made.setdefault(name, Tally()).add(tally)
    return made
