"""Tense and time words: once, still, not yet; how it was, and how to do it."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.4


def differs(stored: Facts, asked: Facts) -> str | None:
    """How it was and how to do it; or members of one group that are not shared by questions else alike."""
    told = clash(stored, asked, "voice")
    if told:
        return told
    found = clash(stored, asked, "tense")
    return found if found and likeness(stored, asked) >= _ALIKE else None
