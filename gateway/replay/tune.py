"""Chooses settings of the semantic layer on one part of a log, and checks them on another, never the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.replay.contract import Policy
from gateway.replay.errors import ReplayError
from gateway.replay.layer import LayerRules
from gateway.replay.prepare import Prepared
from gateway.replay.run import Replayed, replay

PROBABILITIES = (0.5, 0.7, 0.8, 0.87, 0.9, 0.95, 0.97, 0.99)
"""Settings of `semantic.min_probability` that are tried."""

BUDGET_SHARES = (1.0, 0.5, 0.25)
"""Parts of the bound that are tried as `semantic.max_wrong`."""

DRAWS = 3
"""Runs of each setting, which differ in what is explored: one lucky draw recommends nothing."""

MAX_WRONG_DECIMALS = 6
_LEAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Tuned:
    """The settings found, and what they did on either part.

    Attributes:
        keeps: whether the bound held on the tuning part; if not, these are the settings with the lowest bound.
        tuning: the worst of the draws.
        checked: on the part that had no say.
    """

    rules: LayerRules
    keeps: bool
    tuning: Replayed
    checked: Replayed


def halves(prepared: Sequence[Prepared]) -> tuple[Sequence[Prepared], Sequence[Prepared]]:
    """The earlier part, to tune on, and the later one, to check on.

    Raises:
        ReplayError: the log is too short for that.
    """
    if len(prepared) < _LEAST_LINES:
        raise ReplayError(f"{len(prepared)} lines are too few to tune on one part and check on the other")
    middle = len(prepared) // 2
    return prepared[:middle], prepared[middle:]


def candidates(max_wrong: float, others: LayerRules) -> list[LayerRules]:
    """The settings to try for a bound; what is not searched is as in `others`."""
    return [
        replace(others, max_wrong=round(max_wrong * share, MAX_WRONG_DECIMALS), min_probability=least)
        for share in BUDGET_SHARES
        for least in PROBABILITIES
    ]


def tune(
    prepared: Sequence[Prepared],
    tried: Sequence[LayerRules],
    max_wrong: float,
    make: Callable[[LayerRules, int], Policy],
    tick: Callable[[int], None] = lambda _count: None,
) -> Tuned:
    """The settings with the most hits whose bound holds on the earlier part under every one of DRAWS draws.

    Args:
        prepared: the whole log.
        tried: at least one.
        max_wrong: the upper bound of wrong answers in all requests that must hold.
        make: builds a fresh policy whose draws are those of a number; 0 are those of the check.
        tick: told after each line of each run that one more is done.
    """
    first, second = halves(prepared)
    runs = [replay(first, [make(rules, draw) for draw in range(DRAWS)], tick) for rules in tried]
    worst = [max(run, key=lambda one: (one.tally.most_wrong(), -one.tally.hits)) for run in runs]
    keeping = [at for at, run in enumerate(worst) if run.tally.most_wrong() <= max_wrong]
    if keeping:
        best = max(keeping, key=lambda at: (sum(one.tally.hits for one in runs[at]), tried[at].min_probability))
    else:
        best = min(range(len(worst)), key=lambda at: (worst[at].tally.most_wrong(), -worst[at].tally.hits))
    checked = replay(second, [make(tried[best], 0)], tick)[0]
    return Tuned(tried[best], bool(keeping), worst[best], checked)


def recommended(rules: LayerRules) -> str:
    """The settings as TOML, to be put into `lamina.toml`."""
    return (
        '[cache]\nmode = "semantic"\n\n[semantic]\n'
        f"max_wrong = {rules.max_wrong:g}\nmin_probability = {rules.min_probability:g}\n"
    )
