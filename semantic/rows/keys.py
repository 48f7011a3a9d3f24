"""The tenants' data keys, as far as the service needs them to read the rows and to write their vectors."""

from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from policies.encryption import (
    DataKey,
    MasterKeys,
    UnsealError,
    field_key,
    open_field,
    question_place,
    unwrap,
    vector_place,
)
from semantic.rows.tables import DATA_KEYS

_MOST = 20_000


class RowKeys:
    """Keys by id, opened when a row needs them and kept; nothing here waits but `load`.

    Args:
        masters: what data keys are wrapped by; None opens none.
    """

    def __init__(self, masters: MasterKeys | None) -> None:
        self._masters = masters
        self._known: dict[str, DataKey] = {}

    async def load(self, connection: AsyncConnection, stored: Iterable[bytes]) -> None:
        """Reads the keys that these values are sealed under, where they are not known."""
        wanted = {key_id for value in stored if (key_id := field_key(value)) is not None} - self._known.keys()
        if self._masters is None or not wanted:
            return
        if len(self._known) > _MOST:
            self._known.clear()
        query = select(DATA_KEYS).where(DATA_KEYS.c.id.in_(wanted), DATA_KEYS.c.wrapped.is_not(None))
        for row in await connection.execute(query):
            master = self._masters.find(row.master_id)
            try:
                if master is not None:
                    self._known[row.id] = unwrap(master, row.tenant_id, row.id, row.wrapped)
            except UnsealError:
                continue  # its rows stay unread, which the follower counts

    def forget(self) -> None:
        """Forgets every key; those that still exist are read again when they are needed."""
        self._known.clear()

    def of(self, stored: bytes) -> DataKey | None:
        """The loaded key that a value is sealed under."""
        return self._known.get(field_key(stored) or "")

    def question(self, tenant_id: str, family: bytes, partition: bytes, stored: bytes) -> bytes | None:
        """A question as MessagePack; None when it cannot be opened."""
        return self._opened(question_place(tenant_id, family, partition), stored)

    def vectors(self, tenant_id: str, row: int, stored: Mapping[str, bytes]) -> dict[str, bytes]:
        """Vectors by models, those that open."""
        opened = {
            models: self._vector(vector_place(tenant_id, row, models), value) for models, value in stored.items()
        }
        return {models: vector for models, vector in opened.items() if vector is not None}

    def _vector(self, place: bytes, stored: bytes) -> bytes | None:
        return stored if len(stored) % 4 == 0 else self._opened(place, stored)

    def _opened(self, place: bytes, stored: bytes) -> bytes | None:
        if field_key(stored) is None:
            return stored
        key = self.of(stored)
        try:
            return None if key is None else open_field(key, place, stored)
        except UnsealError:
            return None
