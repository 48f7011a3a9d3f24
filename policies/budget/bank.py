"""What requests that risked less than their share have left to others.

The bound is a share of all requests, and most of them risk nothing: no candidate, or one that is all but certain.
What they leave is kept, within limits, and lets a likely candidate through that its own share would not; in sum no
more is ever risked than delta times the requests so far.
"""

_MOST_TIMES = 2.0
_FULL_AFTER = 200.0
_KEPT_REQUESTS = 2_000.0


class Bank:
    """The risk that requests so far were entitled to and did not take, in wrong answers.

    Attributes:
        saved: at least 0 but for the last request's own share.
    """

    __slots__ = ("saved",)

    def __init__(self) -> None:
        self.saved = 0.0

    def came(self, delta: float) -> None:
        """A request came, entitled to its share."""
        self.saved = min(self.saved + delta, delta * _KEPT_REQUESTS)

    def risked(self, chance: float) -> None:
        """A stored answer was served that is right with at least this chance."""
        self.saved -= 1.0 - chance

    def delta(self, delta: float) -> float:
        """What the next request may risk: its own share, up to twice that by what was saved."""
        part = min(1.0, max(0.0, (self.saved - delta) / (delta * _FULL_AFTER)))
        return delta * (1.0 + (_MOST_TIMES - 1.0) * part)
