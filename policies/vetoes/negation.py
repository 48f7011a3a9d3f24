"""Negation: one question says what the other denies."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The side that is negative.

    Nothing when the other side is negative in other words (`stopped` against `isn't`), or when an antonym turns it
    round a second time (`isn't open` against `closed`).
    """
    if not turned(stored, asked):
        return None
    plain = asked if stored.negations % 2 else stored
    if plain.doubtful or clash(stored, asked, "antonym"):
        return None
    return "only the stored question is negative" if plain is asked else "only the question asked is negative"


def turned(stored: Facts, asked: Facts) -> bool:
    """Whether one side has an odd number of negations and the other an even one."""
    return stored.negations % 2 != asked.negations % 2
