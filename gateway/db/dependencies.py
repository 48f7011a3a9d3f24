"""Registering and retiring versions: the change, its purges and its audit row are one transaction."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_purge, check_text
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.purges import insert_numbered
from gateway.db.records import NewPurge, PurgeKind, PurgeMode
from gateway.db.tables import TENANTS
from gateway.db.tenants import require_tenant
from gateway.db.version_rows import EVERYBODY, VersionRow, forget_rows, graph_of, of_scopes, put_rows, read_rows
from policies.dependencies import (
    Affected,
    Change,
    DependencyRefused,
    Graph,
    Ref,
    Version,
    affected,
    registration,
)
from policies.fingerprints import NOTHING_KNOWN, Known

MOST_VERSIONS = 2000
KEPT_RETIRED = 20
"""Of each name; those that were retired before are forgotten, unless something depends on them."""

_TOGETHER = 500
_DEADLINE_OF_ALL_S = 30.0
_REASONS: Mapping[str, Literal["invalid", "conflict"]] = {
    "invalid": "invalid",
    "unknown": "invalid",
    "cycle": "conflict",
    "taken": "conflict",
}


@dataclass(frozen=True, slots=True)
class By:
    """Who changes something, how what stands on it goes, and when."""

    actor: str
    mode: PurgeMode
    now_s: float


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change came to.

    Attributes:
        outcome: see policies.dependencies.Registration; also `retired`.
        taken: what went, of the tenant, or of what is registered for all.
        purges: how many rows of purge logs that took.
        heads: (auth_seq, purge_seq), to be announced, of each tenant whom it concerns.
    """

    row: VersionRow
    outcome: str
    taken: Affected
    purges: int = 0
    heads: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a registration would come to.

    Attributes:
        outcome: see policies.dependencies.Registration.
        retired: versions that it would replace.
        taken: what would go, of the tenant, or of what is registered for all.
        of_each: what would go of each tenant whom it concerns, by the tenant's id.
    """

    outcome: str
    retired: tuple[Ref, ...]
    taken: Affected
    of_each: Mapping[str, Affected]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done, once the graph was read."""

    outcome: str
    changes: tuple[Change, ...]
    put: tuple[VersionRow, ...]
    forget: tuple[Ref, ...] = ()


class VersionRepository:
    """Versions of a tenant, and those of all tenants.

    A tenant sees both as one graph, so a name belongs either to tenants or to all. Changes raise the `auth_seq` of
    whom they concern, by which workers learn the names and templates.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def visible(self, tenant_id: str | None) -> list[VersionRow]:
        """Lists what a tenant sees, or what is registered for all."""
        scopes = (EVERYBODY,) if tenant_id is None else (EVERYBODY, tenant_id)

        async def work(connection: AsyncConnection) -> list[VersionRow]:
            return await read_rows(connection, of_scopes(*scopes))

        return await self._database.read(work)

    async def everything(self) -> list[VersionRow]:
        """Lists the versions of every tenant and of all."""

        async def work(connection: AsyncConnection) -> list[VersionRow]:
            return await read_rows(connection, of_scopes())

        return await self._database.read(work)

    async def known(self, tenant_id: str) -> Known:
        """What a worker needs to know of a tenant's versions; NOTHING_KNOWN when there are none."""
        rows = await self.visible(tenant_id)
        return graph_of(rows).known() if rows else NOTHING_KNOWN

    async def register(self, tenant: str | None, version: Version, by: By, *, beside: bool = False) -> Changed:
        """Registers a version, for a tenant or for all; the same again changes nothing.

        Args:
            tenant: its name or id; None for all.
            version: what is registered.
            by: who, how and when.
            beside: whether versions that are live stay so; else it replaces them.

        Raises:
            RecordError: not_found; invalid; conflict: a cycle, another kind, or a name of somebody else's.
            DatabaseUnavailable: see `Database.write`; doing it again is harmless.
        """
        check_text("the content", version.content)

        def plan(rows: Sequence[VersionRow], scope: str) -> _Plan:
            _check_owner(rows, scope, version.name)
            return _registered(rows, scope, version, by.now_s, beside=beside)

        return await self._change(tenant, version.ref, plan, by)

    async def foreseen(self, tenant_id: str | None, version: Version, *, beside: bool = False) -> Foreseen:
        """What `register` would do now; nothing is changed.

        Raises:
            RecordError: as `register`.
        """
        check_text("the content", version.content)
        scope = EVERYBODY if tenant_id is None else tenant_id
        query = of_scopes() if tenant_id is None else of_scopes(EVERYBODY, scope)

        async def work(connection: AsyncConnection) -> Foreseen:
            rows = await read_rows(connection, query)
            tenant_ids = await _everyone(connection) if tenant_id is None else (tenant_id,)
            _check_owner(rows, scope, version.name)
            plan = _registered(rows, scope, version, 0.0, beside=beside)
            graphs = _graphs(rows, scope, tenant_ids)
            shared = affected(graphs[scope], *plan.changes)
            of_each = {one: _taken(graphs.get(one), plan, shared) for one in tenant_ids}
            return Foreseen(plan.outcome, tuple(row.version.ref for row in plan.put[1:]), shared, of_each)

        return await self._database.read(work)

    async def retire(self, tenant: str | None, ref: Ref, by: By) -> Changed:
        """Retires a version; a second time changes nothing.

        Raises:
            RecordError: not_found.
            DatabaseUnavailable: see `Database.write`.
        """

        def plan(rows: Sequence[VersionRow], scope: str) -> _Plan:
            before = _find(rows, scope, ref)
            if before is None:
                raise RecordError("not_found", f"{ref} is not registered here")
            if before.retired_at is not None:
                return _Plan("unchanged", (), (before,))
            after = replace(before, version=replace(before.version, retired=True), retired_at=by.now_s)
            return _Plan("retired", (Change("retire", ref),), (after,))

        return await self._change(tenant, ref, plan, by)

    async def _change(
        self, tenant: str | None, ref: Ref, plan: Callable[[Sequence[VersionRow], str], _Plan], by: By
    ) -> Changed:
        check_text("the actor", by.actor)

        async def work(connection: AsyncConnection) -> Changed:
            tenant_ids = await _locked(connection, tenant)
            scope = EVERYBODY if tenant is None else tenant_ids[0]
            query = of_scopes() if tenant is None else of_scopes(EVERYBODY, scope)
            rows = await read_rows(connection, query)
            planned = plan(rows, scope)
            return await _done(connection, planned, (scope, ref), (rows, tenant_ids), by)

        return await self._database.write(
            work, alone=tenant is None, deadline_s=_DEADLINE_OF_ALL_S if tenant is None else None
        )


async def _locked(connection: AsyncConnection, tenant: str | None) -> Sequence[str]:
    """The tenants whom a change concerns, locked in the order of their ids until the transaction ends."""
    query = select(TENANTS.c.id).order_by(TENANTS.c.id).with_for_update()
    if tenant is not None:
        query = query.where(TENANTS.c.id == (await require_tenant(connection, tenant)).tenant_id)
    return (await connection.execute(query)).scalars().all()


async def _everyone(connection: AsyncConnection) -> Sequence[str]:
    return (await connection.execute(select(TENANTS.c.id).order_by(TENANTS.c.id))).scalars().all()


def _registered(rows: Sequence[VersionRow], scope: str, version: Version, now_s: float, *, beside: bool) -> _Plan:
    graph = graph_of(row for row in rows if row.scope in (EVERYBODY, scope))
    added = replace(version, shared=scope == EVERYBODY)
    try:
        made = registration(graph, added, beside=beside)
    except DependencyRefused as refused:
        raise RecordError(_REASONS[refused.reason], str(refused)) from None
    before = _find(rows, scope, version.ref)
    mine = [row for row in rows if row.scope == scope]
    if before is None and len(mine) >= MOST_VERSIONS:
        raise RecordError("conflict", f"at most {MOST_VERSIONS} versions; retire and register fewer names")
    since = now_s if before is None else before.registered_at
    put = [VersionRow(scope, added, since, None)]
    for row in mine:
        ref = row.version.ref
        if ref != version.ref and made.after.versions[ref].retired and row.retired_at is None:
            put.append(replace(row, version=made.after.versions[ref], retired_at=now_s))
    forgotten = _too_old(rows, mine, version.ref)
    changes = (*made.changes, *(Change("content", ref) for ref in forgotten))
    return _Plan(made.outcome, changes, tuple(put), forgotten)


def _too_old(rows: Sequence[VersionRow], mine: Sequence[VersionRow], but: Ref) -> tuple[Ref, ...]:
    """Versions of a name that were retired so long ago that they need not be told apart any more."""
    pinned = {ref for row in rows for ref in row.version.depends_on}
    retired = [row for row in mine if row.version.name == but.name and row.retired_at is not None]
    retired.sort(key=lambda row: row.retired_at or 0.0)
    old = retired[: max(0, len(retired) - KEPT_RETIRED)]
    return tuple(row.version.ref for row in old if row.version.ref not in pinned | {but})


def _find(rows: Sequence[VersionRow], scope: str, ref: Ref) -> VersionRow | None:
    return next((row for row in rows if row.scope == scope and row.version.ref == ref), None)


def _check_owner(rows: Sequence[VersionRow], scope: str, name: str) -> None:
    for row in rows:
        if row.version.name == name and row.scope != scope and EVERYBODY in (row.scope, scope):
            whose = "for every tenant" if row.scope == EVERYBODY else "by a tenant"
            raise RecordError("conflict", f"{name} is registered {whose} already")


async def _done(
    connection: AsyncConnection,
    plan: _Plan,
    what: tuple[str, Ref],
    seen: tuple[Sequence[VersionRow], Sequence[str]],
    by: By,
) -> Changed:
    scope, ref = what
    rows, tenant_ids = seen
    graphs = _graphs(rows, scope, tenant_ids)
    taken = affected(graphs[scope], *plan.changes)
    if plan.outcome == "unchanged":
        return Changed(plan.put[0], plan.outcome, taken, heads=await _raised(connection, {}, tenant_ids, by=0))
    await put_rows(connection, plan.put)
    await forget_rows(connection, scope, plan.forget)
    purges = [
        NewPurge(tenant_id, cast("PurgeKind", kind), value, by.mode, by.actor, f"{plan.outcome}: {ref}")
        for tenant_id in tenant_ids
        for kind, value in _taken(graphs.get(tenant_id), plan, taken).scopes
    ]
    for kind, value in taken.scopes:
        check_purge(cast("PurgeKind", kind), value, by.mode)
    heads = await _raised(connection, Counter(purge.tenant_id for purge in purges), tenant_ids, by=1)
    await insert_numbered(connection, purges, heads, by.now_s, audited=False)
    await _record(connection, plan, what, taken, by)
    return Changed(plan.put[0], plan.outcome, taken, len(purges), heads)


def _taken(graph: Graph | None, plan: _Plan, shared: Affected) -> Affected:
    """What goes of a tenant's; of one without versions of its own, what goes of those for all."""
    return shared if graph is None else affected(graph, *plan.changes)


def _graphs(rows: Sequence[VersionRow], scope: str, tenant_ids: Sequence[str]) -> dict[str, Graph]:
    """The graph of the scope, and that of each tenant that has versions of its own."""
    if scope != EVERYBODY:
        return {scope: graph_of(rows)}
    shared = [row for row in rows if row.scope == EVERYBODY]
    own: dict[str, list[VersionRow]] = {}
    for row in rows:
        if row.scope != EVERYBODY:
            own.setdefault(row.scope, []).append(row)
    graphs = {tenant_id: graph_of([*shared, *own[tenant_id]]) for tenant_id in tenant_ids if tenant_id in own}
    return {EVERYBODY: graph_of(shared), **graphs}


async def _raised(
    connection: AsyncConnection, counts: Mapping[str, int], tenant_ids: Sequence[str], *, by: int
) -> dict[str, tuple[int, int]]:
    """Raises the sequences of the locked tenants, `purge_seq` by each one's count; most have the same."""
    heads: dict[str, tuple[int, int]] = {}
    alike: dict[int, list[str]] = {}
    for tenant_id in tenant_ids:
        alike.setdefault(counts.get(tenant_id, 0), []).append(tenant_id)
    for count, members in alike.items():
        values = {"auth_seq": TENANTS.c.auth_seq + by, "purge_seq": TENANTS.c.purge_seq + count}
        for start in range(0, len(members), _TOGETHER):
            step = update(TENANTS).where(TENANTS.c.id.in_(members[start : start + _TOGETHER])).values(**values)
            returned = step.returning(TENANTS.c.id, TENANTS.c.auth_seq, TENANTS.c.purge_seq)
            heads.update({row.id: (row.auth_seq, row.purge_seq) for row in await connection.execute(returned)})
    return heads


async def _record(
    connection: AsyncConnection, plan: _Plan, what: tuple[str, Ref], taken: Affected, by: By
) -> None:
    scope, ref = what
    detail = {
        "outcome": plan.outcome,
        "mode": by.mode,
        "taken": [str(one.ref) for one in taken.versions],
        "purges": [f"{kind} {value}" for kind, value in taken.scopes],
        "forgotten": [str(one) for one in plan.forget],
    }
    action = "version.retire" if plan.outcome == "retired" else "version.register"
    tenant_id = None if scope == EVERYBODY else scope
    await audit.record(
        connection, action, actor_at=(by.actor, by.now_s), tenant_id=tenant_id, target=str(ref), detail=detail
    )
