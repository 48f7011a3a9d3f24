"""What an answer may be once purges have returned: the bench's own judgement."""

import collections
from dataclasses import dataclass
from typing import Any

from bench.purge_chaos.kinds import QUESTIONS, Order, Question


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was sent.

    Attributes:
        tolerant: whether it accepts stale answers (`max-stale`).
        hard, soft: the lowest version that hard, and that soft purges leave, of those that had returned by then.
        newest: the version to which the latest of all purges had raised the answers.
    """

    question: Question
    tolerant: bool
    hard: int
    soft: int
    newest: int

    def lowest(self, source: str) -> int:
        """The lowest version that an answer with this X-Lamina-Cache may have.

        What was purged softly is stale: only who accepts that gets it, and it is called so.
        """
        return self.hard if self.tolerant and source == "STALE" else max(self.hard, self.soft)


@dataclass(slots=True)
class KindTally:
    """What was seen of one kind of purge.

    Attributes:
        returned: purges.
        at_stake: questions, over all of these purges, whose answer could be served until then.
        stale: answers that such a purge should have taken.
    """

    returned: int = 0
    at_stake: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class _Returned:
    label: str
    hard: bool
    covers: frozenset[int]
    raised: int


class Truth:
    """Purges that returned, and answers held against them.

    Attributes:
        stale: (version, lowest allowed, port, source, purge) of each answer that should not have been.
        kept: hits from before the latest purge, which did not take them.
        allowed_stale: softly purged answers that were served as stale to those who accept that.
        by_kind: by kind and mode.
    """

    def __init__(self) -> None:
        self.stale: list[tuple[int, int, int, str, str]] = []
        self.kept = 0
        self.allowed_stale = 0
        self.by_kind: dict[str, KindTally] = collections.defaultdict(KindTally)
        self._purges: list[_Returned] = []
        self._bounds = {hard: [0] * len(QUESTIONS) for hard in (True, False)}
        self._seen = [-1] * len(QUESTIONS)
        self._newest = 0

    def sent(self, question: Question, *, tolerant: bool) -> Sent:
        """A request that is sent now."""
        hard, soft = (self._bounds[kind][question.number] for kind in (True, False))
        return Sent(question, tolerant, hard, soft, self._newest)

    def answered(self, sent: Sent, version: int, source: str, port: int) -> None:
        """Judges an answer."""
        number = sent.question.number
        self._seen[number] = max(self._seen[number], version)
        lowest = sent.lowest(source)
        if version < lowest:
            purge = self._missed(number, version, softly=lowest > sent.hard or not sent.tolerant)
            self.by_kind[purge].stale += 1
            self.stale.append((version, lowest, port, source, purge))
        elif version < sent.soft:
            self.allowed_stale += 1
        elif source == "HIT" and version < sent.newest:
            self.kept += 1

    def returned(self, order: Order, raised: int) -> None:
        """Takes in a purge: of what it covers, no version below `raised` may be served from now on."""
        tally, hard = self.by_kind[order.label], order.mode == "hard"
        tally.returned += 1
        for number in order.covers:
            tally.at_stake += self.servable(number)
            self._bounds[hard][number] = raised
        self._purges.append(_Returned(order.label, hard, order.covers, raised))
        self._newest = raised

    def servable(self, number: int) -> bool:
        """Whether a question's latest answer may be served to everybody."""
        return self._seen[number] >= max(self._bounds[kind][number] for kind in (True, False))

    def told(self) -> dict[str, dict[str, Any]]:
        """By kind and mode, for the report."""
        return {
            label: {"returned": one.returned, "at_stake": one.at_stake, "stale": one.stale}
            for label, one in sorted(self.by_kind.items())
        }

    def _missed(self, number: int, version: int, *, softly: bool) -> str:
        """The first purge that should have taken it, soft ones too or not."""
        return next(
            one.label
            for one in self._purges
            if number in one.covers and version < one.raised and (one.hard or softly)
        )
