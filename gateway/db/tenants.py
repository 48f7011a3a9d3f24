"""Tenants: created, listed, disabled, and read as the one state that authentication needs."""

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_name, check_text, is_name_or_id, make_tenant_id
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import KeyRecord, Overrides, TenantRecord, TenantState
from gateway.db.tables import API_KEYS, OVERRIDES, TENANTS


class TenantRepository:
    """Tenants by name, by id and by the digest of a key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, actor: str, now_s: float) -> TenantRecord:
        """Creates a tenant without keys.

        Raises:
            RecordError: invalid name, or conflict: the name is taken, also by a disabled tenant.
        """
        check_name(name)
        check_text("the actor", actor)

        async def work(connection: AsyncConnection) -> TenantRecord:
            return await insert_tenant(connection, name, actor, now_s)

        return await self._database.write(work)

    async def page(self, limit: int, after: str, only: frozenset[str] | None) -> list[TenantRecord]:
        """Lists at most `limit` tenants whose names come after this one; of `only` these ids, when given."""
        query = select(TENANTS).where(TENANTS.c.name > after).order_by(TENANTS.c.name).limit(limit)
        if only is not None:
            query = query.where(TENANTS.c.id.in_(sorted(only)))

        async def work(connection: AsyncConnection) -> list[TenantRecord]:
            return [TenantRecord(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def list(self) -> list[TenantRecord]:
        """Lists all tenants by name, disabled ones too."""

        async def work(connection: AsyncConnection) -> list[TenantRecord]:
            return [TenantRecord(*row) for row in await connection.execute(select(TENANTS).order_by("name"))]

        return await self._database.read(work)

    async def find(self, name_or_id: str) -> TenantRecord:
        """Finds a tenant by its name or its id.

        Raises:
            RecordError: not_found.
        """

        async def work(connection: AsyncConnection) -> TenantRecord:
            return await require_tenant(connection, name_or_id)

        return await self._database.read(work)

    async def disable(self, name_or_id: str, actor: str, now_s: float) -> TenantState:
        """Shuts a tenant out with all its keys; a second time changes nothing. Returns the state after it.

        Raises:
            RecordError: not_found.
        """
        check_text("the actor", actor)

        async def work(connection: AsyncConnection) -> TenantState:
            tenant = await require_tenant(connection, name_or_id)
            changed = await connection.execute(
                update(TENANTS)
                .where(TENANTS.c.id == tenant.tenant_id, TENANTS.c.disabled_at.is_(None))
                .values(disabled_at=now_s, auth_seq=TENANTS.c.auth_seq + 1)
            )
            if changed.rowcount:
                await audit.record(
                    connection,
                    "tenant.disable",
                    actor_at=(actor, now_s),
                    tenant_id=tenant.tenant_id,
                    target=tenant.tenant_id,
                    detail={"name": tenant.name},
                )
            return await require_state(connection, tenant.tenant_id)

        return await self._database.write(work)

    async def state(self, tenant_id: str) -> TenantState | None:
        """Reads a tenant's state, or None when there is no such tenant."""

        async def work(connection: AsyncConnection) -> TenantState | None:
            return await _read_state(connection, TENANTS.c.id == tenant_id)

        return await self._database.read(work)

    async def raise_auth_seq(self, tenant_id: str, auth_seq: int) -> None:
        """Raises the credential sequence to at least this one, when a restored database knows less than Redis."""
        lower = update(TENANTS).where(TENANTS.c.id == tenant_id, TENANTS.c.auth_seq < auth_seq)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(lower.values(auth_seq=auth_seq))

        await self._database.write(work)

    async def by_key_digest(self, digest: bytes) -> TenantState | None:
        """Reads the state of the tenant that owns a key, revoked or not, or None when nobody does."""
        owner = select(API_KEYS.c.tenant_id).where(API_KEYS.c.digest == digest).scalar_subquery()

        async def work(connection: AsyncConnection) -> TenantState | None:
            return await _read_state(connection, TENANTS.c.id == owner)

        return await self._database.read(work)


async def insert_tenant(connection: AsyncConnection, name: str, actor: str, now_s: float) -> TenantRecord:
    """Inserts a tenant and its audit row inside the caller's transaction.

    Raises:
        RecordError: conflict.
    """
    tenant = TenantRecord(make_tenant_id(), name, now_s, None, 0, 0)
    try:
        await connection.execute(
            insert(TENANTS).values(id=tenant.tenant_id, name=name, created_at=now_s, auth_seq=0, purge_seq=0)
        )
    except IntegrityError:
        raise RecordError("conflict", f"there is a tenant named {name!r} already") from None
    await audit.record(
        connection,
        "tenant.create",
        actor_at=(actor, now_s),
        tenant_id=tenant.tenant_id,
        target=tenant.tenant_id,
        detail={"name": name},
    )
    return tenant


async def require_tenant(connection: AsyncConnection, name_or_id: str) -> TenantRecord:
    """Finds a tenant inside the caller's transaction.

    Raises:
        RecordError: not_found.
    """
    if is_name_or_id(name_or_id):
        query = select(TENANTS).where(or_(TENANTS.c.id == name_or_id, TENANTS.c.name == name_or_id))
        row = (await connection.execute(query)).one_or_none()
        if row is not None:
            return TenantRecord(*row)
    raise RecordError("not_found", f"there is no tenant {name_or_id[:80]!r}")


async def require_state(connection: AsyncConnection, tenant_id: str) -> TenantState:
    """Reads the state of a tenant that must exist, inside the caller's transaction.

    Raises:
        RecordError: not_found.
    """
    state = await _read_state(connection, TENANTS.c.id == tenant_id)
    if state is None:
        raise RecordError("not_found", f"there is no tenant {tenant_id[:80]!r}")
    return state


async def _read_state(connection: AsyncConnection, which: ColumnElement[bool]) -> TenantState | None:
    rows = (await connection.execute(_state_query(which))).all()
    if not rows:
        return None
    first = rows[0]
    return TenantState(
        tenant_id=first.tenant_id,
        name=first.name,
        disabled=first.disabled_at is not None,
        auth_seq=first.auth_seq,
        purge_seq=first.purge_seq,
        keys=tuple(_key_record(row) for row in rows if row.key_id is not None),
        overrides=_overrides(first),
    )


def _state_query(which: ColumnElement[bool]) -> Select[Any]:
    # one statement, so that the sequence and all the rest are of the same moment on both databases
    keys = TENANTS.outerjoin(API_KEYS, API_KEYS.c.tenant_id == TENANTS.c.id)
    own = keys.outerjoin(_OWN, _OWN.c.scope == TENANTS.c.id)
    return (
        select(
            TENANTS.c.id.label("tenant_id"),
            TENANTS.c.name,
            TENANTS.c.disabled_at,
            TENANTS.c.auth_seq,
            TENANTS.c.purge_seq,
            API_KEYS.c.id.label("key_id"),
            API_KEYS.c.digest,
            API_KEYS.c.label,
            API_KEYS.c.hint,
            API_KEYS.c.created_at,
            API_KEYS.c.revoked_at,
            _OWN.c.limits,
            _OWN.c.modes,
            _EVERYBODYS.c.modes.label("everybodys_modes"),
        )
        .select_from(own.outerjoin(_EVERYBODYS, _EVERYBODYS.c.scope == "*"))
        .where(which)
        .order_by(API_KEYS.c.created_at, API_KEYS.c.id)
    )


_OWN = OVERRIDES.alias("own")
_EVERYBODYS = OVERRIDES.alias("everybodys")


def _overrides(row: Row[Any]) -> Overrides:
    own, everybodys = Overrides.parse(row.limits, row.modes), Overrides.parse(None, row.everybodys_modes)
    return Overrides(own.limits, {**everybodys.modes, **own.modes})


def _key_record(row: Row[Any]) -> KeyRecord:
    return KeyRecord(row.key_id, row.tenant_id, row.digest, row.label, row.hint, row.created_at, row.revoked_at)
