"""The purge log: append-only, numbered per tenant without gaps; the truth that every cache entry is judged by."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_purge, check_text, is_name_or_id
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import Appended, NewPurge, PurgeKind, PurgeMode, PurgeRow
from gateway.db.tables import PURGE_LOG, PURGE_MEMBERS, TENANTS
from policies.purge_scopes import OF_PERSONS, PURGE_KINDS, members_value

_LOG = PURGE_LOG.c


class PurgeRepository:
    """Appends to the log and reads it from a sequence number on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(  # noqa: PLR0917  (the columns of one row, each by name in any sane call)
        self,
        tenant_id: str,
        kind: PurgeKind,
        value: str,
        mode: PurgeMode,
        actor: str,
        reason: str,
        now_s: float,
    ) -> PurgeRow:
        """Appends one purge; see `append_all`."""
        appended = await self.append_all([NewPurge(tenant_id, kind, value, mode, actor, reason)], now_s)
        return appended.rows[0]

    async def append_all(self, purges: Sequence[NewPurge], now_s: float) -> Appended:
        """Appends purges, each under its tenant's next number, in this order; all, or none.

        Numbers, rows and audit rows are one transaction. Whoever has seen number n in `heads` or `state` finds all
        rows up to n in `since`.

        Raises:
            RecordError: not_found: no such tenant; invalid: a kind, value or mode that can match nothing.
            DatabaseUnavailable: see `Database.write`; doing it again is harmless, it purges a second time.
        """
        for purge in purges:
            check_new(purge)

        async def work(connection: AsyncConnection) -> Appended:
            counts = Counter(purge.tenant_id for purge in purges)
            # each update locks its tenant's row until the commit, so numbers become visible in order; the rows are
            # locked in the order of ids, so that no two transactions wait for each other
            heads = {
                tenant_id: await _take(connection, tenant_id, counts[tenant_id]) for tenant_id in sorted(counts)
            }
            return Appended(await insert_numbered(connection, purges, heads, now_s), heads)

        return await self._database.write(work)

    async def close_gap(self, tenant_id: str, seq: int, now_s: float) -> None:
        """Makes up for purges that the database lost, as a restored backup does: all up to `seq` is purged, hard.

        What those purges named is not known any more, so everything made before them is dead. A second time, or a
        sequence that the database knows, changes nothing.

        Raises:
            DatabaseUnavailable: see `Database.write`.
        """
        lower = update(TENANTS).where(TENANTS.c.id == tenant_id, TENANTS.c.purge_seq < seq)

        async def work(connection: AsyncConnection) -> None:
            if (await connection.execute(lower.values(purge_seq=seq))).rowcount:
                reason = "the database knew fewer purges than Redis"
                await _insert(connection, [PurgeRow(tenant_id, seq, "all", "", "hard", "lamina", reason, now_s)])

        await self._database.write(work)

    async def since(self, tenant_id: str, seq: int) -> list[PurgeRow]:
        """Lists the tenant's purges numbered above `seq`, ascending, with their members."""
        query = select(PURGE_LOG).where(_LOG.tenant_id == tenant_id, _LOG.seq > seq).order_by(_LOG.seq)

        async def work(connection: AsyncConnection) -> list[PurgeRow]:
            rows = [PurgeRow(*row) for row in await connection.execute(query)]
            return await _with_members(connection, tenant_id, rows)

        return await self._database.read(work)

    async def page(self, tenant_ids: frozenset[str] | None, after: PurgeRow | None, limit: int) -> list[PurgeRow]:
        """Lists purges of these tenants, or of all, the latest first, without members.

        Args:
            tenant_ids: None for every tenant.
            after: the last one of the page before; its `at`, `tenant_id` and `seq` count.
            limit: most rows.
        """
        query = select(PURGE_LOG).order_by(_LOG.at.desc(), _LOG.tenant_id, _LOG.seq.desc()).limit(limit)
        if tenant_ids is not None:
            query = query.where(_LOG.tenant_id.in_(tenant_ids))
        if after is not None:
            query = _further(query, after)

        async def work(connection: AsyncConnection) -> list[PurgeRow]:
            return [PurgeRow(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def prefix_epochs(self) -> dict[str, int]:
        """Maps the tenants that have one to their prefix epoch, as PurgeIndex has it."""
        persons = or_(_LOG.kind.in_(OF_PERSONS), _LOG.kind.not_in(PURGE_KINDS))
        query = (
            select(_LOG.tenant_id, func.max(_LOG.seq)).where(_LOG.mode == "hard", persons).group_by(_LOG.tenant_id)
        )

        async def work(connection: AsyncConnection) -> dict[str, int]:
            return {row[0]: row[1] for row in await connection.execute(query)}

        return await self._database.read(work)

    async def heads(self) -> dict[str, tuple[int, int]]:
        """Maps each tenant's id to its (auth_seq, purge_seq), disabled tenants too."""
        query = select(TENANTS.c.id, TENANTS.c.auth_seq, TENANTS.c.purge_seq)

        async def work(connection: AsyncConnection) -> dict[str, tuple[int, int]]:
            return {
                tenant_id: (auth_seq, purge_seq)
                for tenant_id, auth_seq, purge_seq in await connection.execute(query)
            }

        return await self._database.read(work)


async def insert_numbered(
    connection: AsyncConnection,
    purges: Sequence[NewPurge],
    heads: Mapping[str, tuple[int, int]],
    now_s: float,
    *,
    audited: bool = True,
) -> tuple[PurgeRow, ...]:
    """Inserts purges and their audit rows inside the caller's transaction.

    Args:
        connection: the transaction; it has raised each tenant's `purge_seq` by the number of its purges, and so
            holds the tenant's row.
        purges: in order; see `check_new`.
        heads: (auth_seq, purge_seq) of each tenant after that.
        now_s: when; seconds since the epoch.
        audited: false where the audit says of the whole change what these are for.
    """
    counts = Counter(purge.tenant_id for purge in purges)
    next_seq = {tenant_id: heads[tenant_id][1] - count for tenant_id, count in counts.items()}
    rows = []
    for purge in purges:
        next_seq[purge.tenant_id] += 1
        rows.append(_row(purge, next_seq[purge.tenant_id], now_s))
    if rows:
        await _insert(connection, rows, audited=audited)
    return tuple(rows)


def check_new(purge: NewPurge) -> None:
    """Accepts a purge that can match something.

    Raises:
        RecordError: invalid.
    """
    check_purge(purge.kind, purge.value, purge.mode)
    check_text("the actor", purge.actor)
    check_text("the reason", purge.reason)
    of_members = purge.value == members_value(purge.members) if purge.kind == "meaning" else not purge.members
    if not of_members:
        raise RecordError("invalid", "a purge by meaning, and no other, lists its members, and names them all")


async def _take(connection: AsyncConnection, tenant_id: str, count: int) -> tuple[int, int]:
    """Takes the tenant's next numbers; returns its (auth_seq, purge_seq) from then on."""
    step = update(TENANTS).where(TENANTS.c.id == tenant_id).values(purge_seq=TENANTS.c.purge_seq + count)
    returned = step.returning(TENANTS.c.auth_seq, TENANTS.c.purge_seq)
    found = (await connection.execute(returned)).one_or_none() if is_name_or_id(tenant_id) else None
    if found is None:
        raise RecordError("not_found", f"there is no tenant {tenant_id[:80]!r}")
    return found.auth_seq, found.purge_seq


def _row(purge: NewPurge, seq: int, now_s: float) -> PurgeRow:
    said = (purge.kind, purge.value, purge.mode, purge.actor, purge.reason)
    return PurgeRow(purge.tenant_id, seq, *said, now_s, purge.members)


def _further(query: Select[Any], after: PurgeRow) -> Select[Any]:
    same_time = and_(_LOG.at == after.at, _LOG.tenant_id == after.tenant_id, _LOG.seq < after.seq)
    return query.where(
        or_(_LOG.at < after.at, and_(_LOG.at == after.at, _LOG.tenant_id > after.tenant_id), same_time)
    )


async def _with_members(connection: AsyncConnection, tenant_id: str, rows: list[PurgeRow]) -> list[PurgeRow]:
    by_meaning = [row.seq for row in rows if row.kind == "meaning"]
    if not by_meaning:
        return rows
    members: dict[int, list[bytes]] = {seq: [] for seq in by_meaning}
    which = (PURGE_MEMBERS.c.tenant_id == tenant_id, PURGE_MEMBERS.c.seq.between(by_meaning[0], by_meaning[-1]))
    for seq, key in await connection.execute(select(PURGE_MEMBERS.c.seq, PURGE_MEMBERS.c.key).where(*which)):
        members[seq].append(key)
    said = ((row, tuple(sorted(members.get(row.seq, ())))) for row in rows)
    return [_row_with(row, found) if found else row for row, found in said]


def _row_with(row: PurgeRow, members: tuple[bytes, ...]) -> PurgeRow:
    said = (row.kind, row.value, row.mode, row.actor, row.reason)
    return PurgeRow(row.tenant_id, row.seq, *said, row.at, members)


async def _insert(connection: AsyncConnection, rows: Iterable[PurgeRow], *, audited: bool = True) -> None:
    rows = list(rows)
    names = ("tenant_id", "seq", "kind", "value", "mode", "actor", "reason", "at")
    await connection.execute(insert(PURGE_LOG), [{name: getattr(row, name) for name in names} for row in rows])
    members = [
        {"tenant_id": row.tenant_id, "seq": row.seq, "key": key}
        for row in rows
        for key in sorted(set(row.members))
    ]
    if members:
        await connection.execute(insert(PURGE_MEMBERS), members)
    if audited:
        await audit.record_all(connection, "purge", [_audited(row) for row in rows])


def _audited(row: PurgeRow) -> audit.Audited:
    detail = {"kind": row.kind, "value": row.value, "mode": row.mode, "reason": row.reason}
    return audit.Audited((row.actor, row.at), row.tenant_id, str(row.seq), detail)
