"""Quantifiers and scope words: all or only one, before or after, at least or at most."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The members of one group that the questions do not share."""
    return clash(stored, asked, "scope")
