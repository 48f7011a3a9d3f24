"""Persons: whose affair it is."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.6
_AROUND = frozenset({"neighbour", "colleague", "flatmate", "landlord", "tenant", "friend"})
"""Persons who are often named as part of the situation only."""


def differs(stored: Facts, asked: Facts) -> str | None:
    """The persons that differ; one whom only one question names counts between questions that are else alike."""
    ours, theirs = stored.marks.get("person"), asked.marks.get("person")
    if not ours and not theirs:
        return None
    if ours and theirs:
        return clash(stored, asked, "person")
    named = frozenset().union(*(ours or theirs or {}).values()) - _AROUND
    return " ".join(sorted(named)) if named and likeness(stored, asked) >= _ALIKE else None
