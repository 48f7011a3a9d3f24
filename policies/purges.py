"""Judging entries by the purge log: O(1) for a scope of any size, and nothing ever goes backwards.

An entry carries the tenant's sequence as seen before its model was called (`as_of`). A purge with a higher
sequence that names something the entry is made of makes it dead (hard) or stale (soft).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PURGE_KINDS = ("all", "tag", "key", "model", "user", "version")
"""What a purge can name: everything of the tenant, a tag, one key (hex), a model, a user, `name=version`."""

_OF_PERSONS = frozenset({"all", "user"})

PurgeMode = Literal["hard", "soft"]


@dataclass(frozen=True, slots=True)
class Purge:
    """One row of the log, as far as judging needs it."""

    seq: int
    kind: str
    value: str
    mode: PurgeMode


@dataclass(frozen=True, slots=True)
class Made:
    """What an entry is made of, as far as a purge can name it; `source_hex` is the key of what it is a copy of."""

    key_hex: str
    models: tuple[str, ...]
    user: str = ""
    tags: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    source_hex: str = ""

    def scopes(self) -> list[tuple[str, str]]:
        """Every (kind, value) of a purge that would match."""
        scopes = [("all", ""), ("key", self.key_hex)]
        if self.source_hex:
            scopes.append(("key", self.source_hex))
        scopes.extend(("model", model) for model in self.models)
        if self.user:
            scopes.append(("user", self.user))
        scopes.extend(("tag", tag) for tag in self.tags)
        scopes.extend(("version", f"{name}={value}") for name, value in self.versions)
        return scopes


class PurgeIndex:
    """One tenant's purge log, folded to the highest sequence per scope.

    Invariant: neither `seq` nor `prefix_epoch` ever falls, nor does the highest sequence of any scope that is
    still told apart.

    Attributes:
        prefix_epoch: sequence of the latest hard purge of everything or of a user. What a model's server keeps
            of prompts is never stale, and has no tags or keys to tell it apart; so only purges that must leave
            nothing of somebody's words behind make it unreachable, all of the tenant's at once.

    Args:
        seq: where the log begins.
        max_scopes: beyond so many, the older half is folded into one hard purge of everything up to there: memory
            is bounded, and what is forgotten purges more than it named, never less.
    """

    __slots__ = ("_latest", "_max_scopes", "prefix_epoch", "seq")

    def __init__(self, seq: int = 0, max_scopes: int = 50_000) -> None:
        self.seq = seq
        self.prefix_epoch = 0
        self._max_scopes = max_scopes
        self._latest: dict[tuple[str, str, str], int] = {}

    def fold(self, rows: Iterable[Purge], head: int) -> None:
        """Takes in rows in any order, up to and including sequence `head`; repeating rows is harmless.

        A kind that this version does not know purges everything: a newer one may have written it.
        """
        for row in rows:
            known = row.kind in PURGE_KINDS
            scope = (row.mode, row.kind, row.value) if known else (row.mode, "all", "")
            if row.seq > self._latest.get(scope, 0):
                self._latest[scope] = row.seq
            if row.mode == "hard" and scope[1] in _OF_PERSONS:
                self.prefix_epoch = max(self.prefix_epoch, row.seq)
        self.seq = max(self.seq, head)
        if len(self._latest) > self._max_scopes:
            self._forget_older_half()

    def _forget_older_half(self) -> None:
        by_age = sorted(self._latest.items(), key=lambda item: item[1])
        older, newer = by_age[: len(by_age) // 2], by_age[len(by_age) // 2 :]
        self._latest = dict(newer)
        everything = ("hard", "all", "")
        self._latest[everything] = max(self._latest.get(everything, 0), older[-1][1])

    def nothing_since(self, as_of: int) -> bool:
        """Whether no purge at all is later than `as_of`."""
        return as_of >= self.seq

    def verdict(self, made: Made, as_of: int) -> PurgeMode | None:
        """`hard` when the entry is dead, `soft` when it is stale, None when no later purge names it."""
        if as_of >= self.seq or not self._latest:
            return None
        latest = self._latest
        soft = False
        for kind, value in made.scopes():
            if latest.get(("hard", kind, value), 0) > as_of:
                return "hard"
            soft = soft or latest.get(("soft", kind, value), 0) > as_of
        return "soft" if soft else None
