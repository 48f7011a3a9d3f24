"""What is stored of a tenant, in both layers, walked in bounded steps: nothing is held but one step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from gateway.db.records import SemanticRow
from gateway.errors import StoreUnavailable
from gateway.layers.entry import Entry, EntryError, Sealer
from gateway.layers.exact import entry_key
from policies.types import Json

EXACT, SEMANTIC = "exact", "semantic"
_KEYS_A_STEP = 200
_ROWS_A_STEP = 200
_DIGITS = 64
_MOST_DIGITS = {EXACT: 20, SEMANTIC: 18}
_PAIR = 2


class Redis(Protocol):
    """Commands to Redis; each may raise StoreUnavailable."""

    async def call(self, *command: str | bytes | int) -> Any:
        """One command's reply."""
        ...


class Rows(Protocol):
    """Reads semantic rows; may raise DatabaseUnavailable."""

    async def after(self, tenant_id: str, row: int, limit: int) -> Sequence[SemanticRow]:
        """Rows above a number, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """How far a walk has come: Redis' own cursor, then the number of the last row.

    A walk meets everything that is there from its beginning to its end, and may meet it twice.
    """

    layer: str = EXACT
    at: int = 0

    def __str__(self) -> str:
        return f"{self.layer}.{self.at}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The place that `str` wrote; None for any other text."""
        layer, _, digits = text.partition(".")
        sane = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS.get(layer, 0)
        return cls(layer, int(digits)) if sane else None


@dataclass(frozen=True, slots=True)
class Item:
    """One stored answer.

    Attributes:
        layer: `exact` or `semantic`.
        size_bytes: as stored.
        row: the semantic row, else None.
    """

    layer: str
    entry: Entry
    size_bytes: int
    row: SemanticRow | None = None

    @property
    def id(self) -> str:
        """What X-Lamina-Cache-Id shows of it."""
        return self.entry.key.hex()


@dataclass(frozen=True, slots=True)
class Step:
    """What one step found.

    Attributes:
        items: authentic entries of the tenant.
        unread: how many values were none, or cannot be read by this set any more.
        next: where the next step begins; None at the end.
    """

    items: tuple[Item, ...]
    unread: int
    next: Place | None


class Stored:
    """Walks a tenant's entries.

    Args:
        redis: a connection of its own, so that no request waits behind a step.
        rows: the semantic layer's.
        sealer: opens what is found.
    """

    def __init__(self, redis: Redis, rows: Rows, sealer: Sealer) -> None:
        self._redis = redis
        self._rows = rows
        self._sealer = sealer

    async def step(self, tenant_id: str, place: Place) -> Step:
        """The entries of one step from `place`.

        Raises:
            StoreUnavailable: Redis does not answer.
            DatabaseUnavailable: the database does not.
        """
        return await (
            self._exact(tenant_id, place.at) if place.layer == EXACT else self._semantic(tenant_id, place.at)
        )

    async def one(self, tenant_id: str, id_: str) -> Item | None:
        """The entry of the exact layer with this id.

        Raises:
            StoreUnavailable: Redis does not answer.
        """
        value = await self._redis.call("GET", entry_key(tenant_id, id_))
        return self._opened(tenant_id, id_, value)

    async def _exact(self, tenant_id: str, cursor: int) -> Step:
        prefix = entry_key(tenant_id, "")
        reply = await self._redis.call("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _KEYS_A_STEP)
        if not isinstance(reply, list) or len(reply) != _PAIR or not isinstance(reply[1], list):
            raise StoreUnavailable("a reply of another shape")
        keys = list(dict.fromkeys(reply[1]))
        values = await self._redis.call("MGET", *keys) if keys else []
        ids = [key.decode("ascii", "replace").removeprefix(prefix) for key in keys]
        found = [self._opened(tenant_id, id_, value) for id_, value in zip(ids, values, strict=True)]
        items = tuple(item for item in found if item is not None)
        gone = sum(value is None for value in values)
        following = int(reply[0])
        return Step(
            items, len(found) - len(items) - gone, Place(EXACT, following) if following else Place(SEMANTIC)
        )

    async def _semantic(self, tenant_id: str, after: int) -> Step:
        rows = await self._rows.after(tenant_id, after, _ROWS_A_STEP)
        items = tuple(item for row in rows if (item := opened_row(self._sealer, row)) is not None)
        last = len(rows) < _ROWS_A_STEP
        return Step(items, len(rows) - len(items), None if last else Place(SEMANTIC, rows[-1].row))

    def _opened(self, tenant_id: str, id_: str, value: Any) -> Item | None:
        if not isinstance(value, bytes) or len(id_) != _DIGITS:
            return None
        try:
            return Item(EXACT, self._sealer.open(value, tenant_id, bytes.fromhex(id_)), len(value))
        except (EntryError, ValueError):
            return None


def opened_row(sealer: Sealer, row: SemanticRow) -> Item | None:
    """A row's entry; None when it cannot be read."""
    try:
        return Item(SEMANTIC, sealer.open(row.sealed, row.tenant_id, row.key), len(row.sealed), row)
    except EntryError:
        return None


def told(item: Item, now_s: float) -> Json:
    """What may be told of an entry to anybody who may see entries: nothing of what was asked or answered."""
    entry = item.entry
    age_s = max(0.0, now_s - entry.created_s)
    return {
        "id": item.id,
        "layer": item.layer,
        "row": None if item.row is None else item.row.row,
        "state": "live" if item.row is None else item.row.state,
        "model": entry.models[0] if entry.models else "",
        "route": entry.route or (item.row.route if item.row is not None else ""),
        "age_s": round(age_s, 3),
        "ttl_s": round(entry.ttl_s - age_s, 3),
        "created_at": entry.created_s,
        "tags": list(entry.tags),
        "versions": dict(entry.versions),
        "personal": bool(entry.made().whose),
        "copy_of": entry.source.hex() or None,
        "size_bytes": item.size_bytes,
        "request_id": entry.request_id,
        "as_of": entry.as_of,
    }
