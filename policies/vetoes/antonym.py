"""Antonyms: one question names the opposite of what the other names."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts
from policies.vetoes.negation import turned


def differs(stored: Facts, asked: Facts) -> str | None:
    """The opposites; nothing when a negation on one side turns them round again."""
    return None if turned(stored, asked) else clash(stored, asked, "antonym")
