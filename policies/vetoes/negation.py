"""Negation: one question says what the other denies."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE, _EQUAL = 0.6, 0.8
_NEED = frozenset({"need", "must", "require", "requir", "required", "necessary", "compulsory", "mandatory",
    "obligatory",
                   "essential", "needed", "have"})  # fmt: skip


def differs(stored: Facts, asked: Facts) -> str | None:
    """The side that is negative.

    What it denies must be said by the other one, or both be much alike. Nothing when the other side is negative in
    other words (`stopped` against `isn't`), or when an antonym turns it round a second time (`isn't open` against
    `closed`).
    """
    if not turned(stored, asked):
        return None
    negative, plain = (stored, asked) if stored.negations % 2 else (asked, stored)
    if plain.doubtful or clash(stored, asked, "antonym"):
        return None
    if negative.denied.isdisjoint(plain.words) and likeness(stored, asked) < (
        _ALIKE if negative.denied else _EQUAL
    ):
        return None
    if not negative.words.isdisjoint({"without", "no"}) and not plain.words.isdisjoint(_NEED):
        return None
    return f"denied: {' '.join(sorted(negative.denied)) or 'all'}"


def turned(stored: Facts, asked: Facts) -> bool:
    """Whether one side has an odd number of negations and the other an even one."""
    return stored.negations % 2 != asked.negations % 2
