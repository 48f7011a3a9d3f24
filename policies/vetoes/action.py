"""Actions: one question is about doing something else to the same thing."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.4


def differs(stored: Facts, asked: Facts) -> str | None:
    """What is done in one and in the other, between questions that are else alike."""
    found = clash(stored, asked, "action", single=True)
    return found if found and likeness(stored, asked) >= _ALIKE else None
