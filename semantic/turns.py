"""How conversations are compared where nothing better is built in: they are found, and never share an answer."""

from collections.abc import Sequence
from typing import Protocol

from policies.questions import Question

_NEWLINE = "\n"


class Conversations(Protocol):
    """Judges whether two different conversations deserve the same answer; safe from several threads.

    Another fingerprint embeds other texts, or judges otherwise.
    """

    @property
    def fingerprint(self) -> str:
        """Digest of what decides."""
        ...

    def nomination_text(self, question: Question) -> str:
        """What stands for a conversation when it is embedded, for stored and asked ones alike."""
        ...

    def judge_all(self, asked: Question, stored: Sequence[Question]) -> Sequence[tuple[str | None, float]]:
        """Per stored conversation the veto that speaks, or None, and the probability of an equal answer."""
        ...


class LastTurns:
    """Finds conversations by their last two turns, and vetoes each that is not the same to the letter."""

    fingerprint = "last-turns-1"

    def nomination_text(self, question: Question) -> str:
        """The last turn and the one before."""
        return _NEWLINE.join(text for _, text in question.turns[-2:])

    def judge_all(self, asked: Question, stored: Sequence[Question]) -> Sequence[tuple[str | None, float]]:
        """Never the same answer."""
        del asked
        return [("conversation", 0.0)] * len(stored)
