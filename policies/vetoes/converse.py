"""Converses: who speaks stays the same and changes sides, as from buying to selling."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.4
_PERSONS = frozenset({"i", "you"})


def differs(stored: Facts, asked: Facts) -> str | None:
    """The sides; nothing when one asks what `I buy` and the other what `you sell`."""
    if _PERSONS.intersection(stored.order) != _PERSONS.intersection(asked.order):
        return None
    found = clash(stored, asked, "converse", single=True)
    return found if found and likeness(stored, asked) >= _ALIKE else None
