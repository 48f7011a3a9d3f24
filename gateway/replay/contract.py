"""What a cache policy must be able to do to be replayed."""

from typing import Protocol

from gateway.replay.prepare import Prepared
from policies.replay import Outcome


class Policy(Protocol):
    """A cache in virtual time: told each request in order, it answers from what it stored or stores the answer.

    Attributes:
        name: in tables and charts.
        family: policies that differ in one number only share it; a chart joins them by a line.
    """

    name: str
    family: str

    def ask(self, asked: Prepared) -> Outcome:
        """What becomes of the request, at its own time; never earlier than the one before."""
        ...
