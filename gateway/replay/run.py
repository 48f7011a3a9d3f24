"""Tells every policy every line, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.replay.contract import Policy
from gateway.replay.prepare import Prepared
from policies.replay import Tally


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one policy did."""

    name: str
    family: str
    tally: Tally


def replay(
    prepared: Sequence[Prepared], policies: Sequence[Policy], tick: Callable[[int], None] = lambda _count: None
) -> list[Replayed]:
    """One count per policy.

    Args:
        prepared: consecutive lines.
        policies: fresh ones.
        tick: told after each line that one more is done.
    """
    tallies = [Tally() for _ in policies]
    for asked in prepared:
        for policy, tally in zip(policies, tallies, strict=True):
            tally.add(asked.line, policy.ask(asked))
        tick(1)
    return [Replayed(policy.name, policy.family, tally) for policy, tally in zip(policies, tallies, strict=True)]
