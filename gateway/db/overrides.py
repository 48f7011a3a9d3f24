"""What an operator sets over the settings while the set runs: limits of tenants, modes of routes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Select, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_text
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import MODES, Overrides, TenantState
from gateway.db.tables import OVERRIDES, TENANTS
from gateway.db.tenants import require_state, require_tenant
from policies.limits import NO_LIMITS, Limits

EVERY_TENANT = "*"
_MOST_MODES = 1000
_INSERTS: dict[str, Callable[[Table], sqlite.Insert] | Callable[[Table], postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
_OVER = OVERRIDES.c


class OverrideRepository:
    """Overrides by tenant. A change bumps the `auth_seq` of the tenants it concerns, in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant_id: str) -> Overrides:
        """What is set for a tenant itself, or for EVERY_TENANT."""

        async def work(connection: AsyncConnection) -> Overrides:
            return await _read(connection, tenant_id)

        return await self._database.read(work)

    async def set_limits(self, tenant: str, limits: Limits, actor: str, now_s: float) -> TenantState:
        """Sets a tenant's limits, all of them; the same again changes nothing. Returns its state after it.

        Raises:
            RecordError: not_found.
        """
        check_text("the actor", actor)

        async def work(connection: AsyncConnection) -> TenantState:
            owner = await require_tenant(connection, tenant)
            before = await _locked(connection, owner.tenant_id)
            if before.limits != limits:
                await _write(connection, owner.tenant_id, Overrides(limits, before.modes))
                await _bump(connection, owner.tenant_id)
                await audit.record(
                    connection,
                    "limits.set",
                    actor_at=(actor, now_s),
                    tenant_id=owner.tenant_id,
                    target=owner.tenant_id,
                    detail={"before": before.limits.as_json(), "after": limits.as_json()},
                )
            return await require_state(connection, owner.tenant_id)

        return await self._database.write(work)

    async def set_modes(self, tenant: str, modes: Mapping[str, str], actor: str, now_s: float) -> TenantState:
        """Sets the modes of routes for a tenant, all of them; the same again changes nothing.

        Raises:
            RecordError: not_found; invalid: there is no such mode.
        """
        check_text("the actor", actor)
        _check(modes)

        async def work(connection: AsyncConnection) -> TenantState:
            owner = await require_tenant(connection, tenant)
            before = await _locked(connection, owner.tenant_id)
            if before.modes != modes:
                await _write(connection, owner.tenant_id, Overrides(before.limits, dict(modes)))
                await _bump(connection, owner.tenant_id)
                await _record_modes(connection, owner.tenant_id, (before.modes, modes), (actor, now_s))
            return await require_state(connection, owner.tenant_id)

        return await self._database.write(work)

    async def set_modes_for_all(
        self, modes: Mapping[str, str], actor: str, now_s: float
    ) -> dict[str, tuple[int, int]]:
        """Sets the modes of routes for every tenant, to come too; those of a tenant's own stand above them.

        Returns:
            Of each tenant, (auth_seq, purge_seq) to be announced; also when nothing was changed.

        Raises:
            RecordError: invalid: there is no such mode.
        """
        check_text("the actor", actor)
        _check(modes)

        async def work(connection: AsyncConnection) -> dict[str, tuple[int, int]]:
            before = await _read(connection, EVERY_TENANT)
            if before.modes != modes:
                await _write(connection, EVERY_TENANT, Overrides(NO_LIMITS, dict(modes)))
                await connection.execute(update(TENANTS).values(auth_seq=TENANTS.c.auth_seq + 1))
                await _record_modes(connection, None, (before.modes, modes), (actor, now_s))
            heads = select(TENANTS.c.id, TENANTS.c.auth_seq, TENANTS.c.purge_seq)
            return {row.id: (row.auth_seq, row.purge_seq) for row in await connection.execute(heads)}

        return await self._database.write(work, alone=True)


def _check(modes: Mapping[str, str]) -> None:
    if len(modes) > _MOST_MODES:
        raise RecordError("invalid", f"at most {_MOST_MODES} routes")
    for route, mode in modes.items():
        check_text("a route's name", route)
        if mode not in MODES:
            raise RecordError("invalid", f"a mode is {', '.join(MODES)}, not {mode[:40]!r}")


async def _locked(connection: AsyncConnection, tenant_id: str) -> Overrides:
    """What is set for a tenant, with the tenant's row locked until the transaction ends."""
    await connection.execute(select(TENANTS.c.id).where(TENANTS.c.id == tenant_id).with_for_update())
    return await _read(connection, tenant_id)


async def _read(connection: AsyncConnection, scope: str) -> Overrides:
    query: Select[Any] = select(_OVER.limits, _OVER.modes).where(_OVER.scope == scope)
    row = (await connection.execute(query)).one_or_none()
    return Overrides() if row is None else Overrides.parse(row.limits, row.modes)


async def _write(connection: AsyncConnection, scope: str, overrides: Overrides) -> None:
    values = {"limits": json.dumps(overrides.limits.as_json()), "modes": json.dumps(dict(overrides.modes))}
    row = _INSERTS[connection.dialect.name](OVERRIDES).values(scope=scope, **values)
    await connection.execute(row.on_conflict_do_update(index_elements=["scope"], set_=values))


async def _bump(connection: AsyncConnection, tenant_id: str) -> None:
    which = update(TENANTS).where(TENANTS.c.id == tenant_id)
    await connection.execute(which.values(auth_seq=TENANTS.c.auth_seq + 1))


async def _record_modes(
    connection: AsyncConnection,
    tenant_id: str | None,
    change: tuple[Mapping[str, str], Mapping[str, str]],
    actor_at: tuple[str, float],
) -> None:
    await audit.record(
        connection,
        "modes.set",
        actor_at=actor_at,
        tenant_id=tenant_id,
        target=tenant_id or EVERY_TENANT,
        detail={"before": dict(change[0]), "after": dict(change[1])},
    )
