"""Persons: whose affair it is."""

from policies.vetoes.exclusion import clash
from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The members of one group that the questions do not share."""
    return clash(stored, asked, "person")
