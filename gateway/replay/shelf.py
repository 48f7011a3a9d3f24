"""The exact layer in virtual time."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.replay.prepare import Prepared
from policies.controls import Controls
from policies.decide import Hit, Life, judge
from policies.replay import Line, Outcome, same_answer


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored answer: the line that it was made for, and its life."""

    origin: int
    life: Life


class Shelf:
    """Answers under exact keys.

    Args:
        lines: of the whole log, for what is true.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._kept: dict[bytes, Kept] = {}

    def find(self, asked: Prepared) -> Outcome | None:
        """The outcome when the very request is answered; None to go on."""
        kept = self._kept.get(asked.key.digest) if asked.key is not None and asked.read else None
        if kept is None or not alive(kept.life, asked.controls, asked.line.t_s):
            return None
        return self.hit("exact", kept.origin, asked)

    def hit(self, layer: str, origin: int, asked: Prepared) -> Outcome:
        """A hit, judged by the log."""
        return Outcome(layer, layer, same_answer(self._lines[origin], asked.line))

    def put(self, asked: Prepared, origin: int, life: Life) -> None:
        """Stores the answer of a line under the asked request's key."""
        if asked.key is not None:
            self._kept[asked.key.digest] = Kept(origin, life)


def alive(life: Life, controls: Controls, now_s: float) -> bool:
    """Whether an entry may be served now; stale answers are not replayed."""
    return isinstance(judge(life, None, controls, now_s), Hit)


def missed(asked: Prepared, reason: str) -> Outcome:
    """The model's answer."""
    return Outcome(None, asked.reason or reason)


class ExactOnly:
    """The exact layer alone. Meets Policy."""

    name = "exact only"
    family = "exact only"

    def __init__(self, lines: Sequence[Line]) -> None:
        self._shelf = Shelf(lines)

    def ask(self, asked: Prepared) -> Outcome:
        """See Policy."""
        found = self._shelf.find(asked)
        if found is not None:
            return found
        if asked.ttl_s is not None:
            self._shelf.put(asked, asked.at, Life(asked.line.t_s, asked.ttl_s))
        return missed(asked, "absent")
