"""What a purge by meaning takes: the stored questions whose embedding is near a text."""

from dataclasses import dataclass
from typing import Protocol

from gateway.db.row_pages import RowPages
from policies.nomination import Near, NearRows
from policies.purge_scopes import members_value

MOST_MEMBERS = 5000
_DEADLINE_S = 10.0


class Nearby(Protocol):
    """The semantic service."""

    async def near(self, near: Near, deadline_s: float) -> NearRows:
        """Stored rows near a text, nearest first; raises SemanticUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored question near the text: its row, its exact key, and the cosine, higher is closer."""

    row: int
    key: bytes
    similarity: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest first; `more` when there are others within the bounds that were not listed."""

    found: tuple[Neighbour, ...]
    more: bool

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The exact keys, each once."""
        return tuple(sorted({one.key for one in self.found}))

    @property
    def value(self) -> str:
        """What the log calls exactly these: their number and a digest of all keys."""
        return members_value(self.keys)


class Neighbourhood:
    """Finds the rows of a tenant near a text."""

    def __init__(self, service: Nearby, pages: RowPages) -> None:
        self._service = service
        self._pages = pages

    async def of(self, tenant_id: str, text: str, similarity: float, count: int | None) -> Neighbours:
        """The rows with at least this cosine, at most `count` of them, or MOST_MEMBERS.

        Raises:
            SemanticUnavailable: the service does not say.
            DatabaseUnavailable: the rows cannot be read.
        """
        most = MOST_MEMBERS if count is None else count
        asked = Near(tenant_id, text=text, similarity=similarity, limit=most + (count is None))
        near = (await self._service.near(asked, _DEADLINE_S)).rows
        keys = await self._pages.keys(tenant_id, [row for row, _ in near[:most]])
        found = tuple(Neighbour(row, keys[row], cosine) for row, cosine in near[:most] if row in keys)
        return Neighbours(found, len(near) > most)
