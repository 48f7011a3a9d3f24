"""How conversations are compared where nothing better is built in: they are found, and never share an answer."""

from typing import Protocol

from policies.questions import Question

ComparedTexts = tuple[tuple[str, str], ...]
"""Stored and asked text of what must agree, part by part."""

_NEWLINE = "\n"


class Conversations(Protocol):
    """What two different conversations must agree in to share an answer.

    `text` is used for stored and asked questions alike; another fingerprint embeds other texts.
    """

    @property
    def fingerprint(self) -> str:
        """Digest of what decides."""
        ...

    def text(self, question: Question) -> str | None:
        """What stands for the whole conversation when it is embedded; None when it is not compared."""
        ...

    def pairs(self, stored: Question, asked: Question) -> ComparedTexts | str:
        """The texts that must agree, or the name of the rule that speaks against one answer for both."""
        ...


class LastTurns:
    """Finds conversations by their last two turns, and vetoes each that is not the same to the letter."""

    fingerprint = "last-turns-1"

    def text(self, question: Question) -> str | None:
        """The last turn and the one before; None when there is none before."""
        if not question.history:
            return None
        return _NEWLINE.join(text for _, text in question.turns[-2:])

    def pairs(self, stored: Question, asked: Question) -> ComparedTexts | str:
        """Never the same answer."""
        del stored, asked
        return "conversation"
