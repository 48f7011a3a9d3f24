"""Antonyms: one question names the opposite of what the other names."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness
from policies.vetoes.negation import turned

_ALIKE = 0.3


def differs(stored: Facts, asked: Facts) -> str | None:
    """The opposites; nothing when a negation on one side turns them round again."""
    if turned(stored, asked):
        return None
    found = clash(stored, asked, "antonym", single=True)
    return found if found and likeness(stored, asked) >= _ALIKE else None
