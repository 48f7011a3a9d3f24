"""Judging entries by the purge log: O(1) for a scope of any size, and nothing ever goes backwards.

An entry carries the tenant's sequence as seen before its model was called (`as_of`). A purge with a higher
sequence that names something the entry is made of makes it dead (hard) or stale (soft).
"""

import bisect
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from policies.purge_scopes import HEIGHTS, PURGE_KINDS, VALUES, Made, Purge, PurgeMode, named

__all__ = ["PURGE_KINDS", "Made", "Purge", "PurgeIndex", "PurgeMode"]


class Front:
    """Bounds by sequence, folded to those that still matter: the later a purge, the lower its bound.

    The highest bound that is later than a sequence is then found by one binary search.
    """

    __slots__ = ("_bounds", "_seqs")

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._bounds: list[Any] = []

    def add(self, seq: int, bound: Any) -> None:
        """Takes in a bound; in any order, and repeating it is harmless."""
        at = bisect.bisect_left(self._seqs, seq)
        if at < len(self._seqs) and self._bounds[at] >= bound:
            return
        end = at + (at < len(self._seqs) and self._seqs[at] == seq)
        while at > 0 and self._bounds[at - 1] <= bound:
            at -= 1
        self._seqs[at:end] = [seq]
        self._bounds[at:end] = [bound]

    def covers(self, as_of: int, height: Any) -> bool:
        """Whether a bound later than `as_of` is above this height."""
        at = bisect.bisect_right(self._seqs, as_of)
        return at < len(self._seqs) and bool(self._bounds[at] > height)

    def forget(self, upto: int) -> None:
        """Drops what is not later than `upto`."""
        at = bisect.bisect_right(self._seqs, upto)
        del self._seqs[:at], self._bounds[:at]

    @property
    def seqs(self) -> tuple[int, ...]:
        """The sequences kept, ascending."""
        return tuple(self._seqs)


@dataclass(slots=True)
class _Folded:
    """The purges of one mode: by kind and value the highest sequence, by kind and name the bounds."""

    latest: dict[str, dict[Hashable, int]] = field(default_factory=dict)
    fronts: dict[str, dict[str, Front]] = field(default_factory=dict)

    def raise_to(self, kind: str, value: Hashable, seq: int) -> None:
        of_kind = self.latest.setdefault(kind, {})
        if seq > of_kind.get(value, 0):
            of_kind[value] = seq

    def add(self, purge: Purge) -> int:
        """Takes in a row; returns by how many scopes there may be more."""
        told = named(purge)
        for kind, value in told.values:
            self.raise_to(kind, value, purge.seq)
        for kind, name, bound in told.bounds:
            self.fronts.setdefault(kind, {}).setdefault(name, Front()).add(purge.seq, bound)
        return len(told.values) + len(told.bounds)

    def names(self, made: Made, as_of: int) -> bool:
        for kind, of_kind in self.latest.items():
            for value in VALUES[kind](made):
                if of_kind.get(value, 0) > as_of:
                    return True
        for kind, by_name in self.fronts.items():
            for name, height in HEIGHTS[kind](made):
                front = by_name.get(name)
                if front is not None and front.covers(as_of, height):
                    return True
        return False

    def seqs(self) -> Iterator[int]:
        for of_kind in self.latest.values():
            yield from of_kind.values()
        for by_name in self.fronts.values():
            for front in by_name.values():
                yield from front.seqs

    def forget(self, upto: int) -> None:
        for kind, of_kind in self.latest.items():
            self.latest[kind] = {value: seq for value, seq in of_kind.items() if seq > upto}
        for kind, by_name in self.fronts.items():
            for front in by_name.values():
                front.forget(upto)
            self.fronts[kind] = {name: front for name, front in by_name.items() if front.seqs}


class PurgeIndex:
    """One tenant's purge log, folded to the highest sequence per scope.

    Invariant: neither `seq` nor `prefix_epoch` ever falls, nor does the highest sequence of any scope that is
    still told apart.

    Attributes:
        prefix_epoch: sequence of the latest hard purge of everything, of a user or of a session. What a model's
            server keeps of prompts is never stale, and has no tags or keys to tell it apart; so only purges that
            must leave nothing of somebody's words behind make it unreachable, all of the tenant's at once.

    Args:
        seq: where the log begins.
        max_scopes: beyond so many, the older half is folded into one hard purge of everything up to there: memory
            is bounded, and what is forgotten purges more than it named, never less.
    """

    __slots__ = ("_at_most", "_hard", "_max_scopes", "_soft", "prefix_epoch", "seq")

    def __init__(self, seq: int = 0, max_scopes: int = 50_000) -> None:
        self.seq = seq
        self.prefix_epoch = 0
        self._max_scopes = max_scopes
        self._at_most = 0
        self._hard, self._soft = _Folded(), _Folded()

    def __len__(self) -> int:
        """How many scopes are told apart."""
        return sum(1 for folded in (self._hard, self._soft) for _ in folded.seqs())

    def fold(self, rows: Iterable[Purge], head: int) -> None:
        """Takes in rows in any order, up to and including sequence `head`; repeating rows is harmless.

        A kind or a value that this version does not know purges everything: a newer one may have written it.
        """
        for row in rows:
            self._at_most += (self._hard if row.mode == "hard" else self._soft).add(row)
            if row.of_persons:
                self.prefix_epoch = max(self.prefix_epoch, row.seq)
        self.seq = max(self.seq, head)
        if self._at_most > self._max_scopes:
            self._at_most = len(self)
            if self._at_most > self._max_scopes:
                self._forget_older_half()

    def _forget_older_half(self) -> None:
        by_age = sorted([*self._hard.seqs(), *self._soft.seqs()])
        upto = by_age[(len(by_age) - 1) // 2]
        self._hard.forget(upto)
        self._soft.forget(upto)
        self._hard.raise_to("all", "", upto)
        self._at_most = len(self)

    def nothing_since(self, as_of: int) -> bool:
        """Whether no purge at all is later than `as_of`."""
        return as_of >= self.seq

    def verdict(self, made: Made, as_of: int) -> PurgeMode | None:
        """`hard` when the entry is dead, `soft` when it is stale, None when no later purge names it."""
        if as_of >= self.seq:
            return None
        if self._hard.names(made, as_of):
            return "hard"
        return "soft" if self._soft.names(made, as_of) else None
