"""Registered versions as rows of the database."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.version_tables import VERSIONS
from policies.dependencies import Graph, Ref, Version

EVERYBODY = "*"
"""The scope of what is registered for every tenant."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A registered version, whose it is, and since when.

    Attributes:
        scope: a tenant's id, or EVERYBODY.
    """

    scope: str
    version: Version
    registered_at: float
    retired_at: float | None


def of_scopes(*scopes: str) -> Select[Any]:
    """The query for the rows of some scopes, by name and age; of all scopes, when none is given."""
    table = VERSIONS.c
    query = select(VERSIONS).order_by(table.scope, table.name, table.registered_at, table.version)
    return query.where(table.scope.in_(scopes)) if scopes else query


async def read_rows(connection: AsyncConnection, query: Select[Any]) -> list[VersionRow]:
    """Reads rows inside the caller's transaction."""
    return [_row(row) for row in await connection.execute(query)]


def graph_of(rows: Iterable[VersionRow]) -> Graph:
    """The graph of some rows."""
    return Graph(row.version for row in rows)


async def put_rows(connection: AsyncConnection, rows: Sequence[VersionRow]) -> None:
    """Writes rows over those that are there, inside the caller's transaction."""
    inserting: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
    for row in rows:
        key = {"scope": row.scope, "name": row.version.name, "version": row.version.version}
        values = _columns(row)
        made = inserting(VERSIONS).values(**key, **values)
        await connection.execute(made.on_conflict_do_update(index_elements=list(key), set_=values))


async def forget_rows(connection: AsyncConnection, scope: str, refs: Iterable[Ref]) -> None:
    """Deletes rows, inside the caller's transaction."""
    table = VERSIONS.c
    for ref in refs:
        which = (table.scope == scope, table.name == ref.name, table.version == ref.version)
        await connection.execute(delete(VERSIONS).where(*which))


def _columns(row: VersionRow) -> dict[str, Any]:
    version = row.version
    carried = {"prints": version.prints, "models": version.models, "templates": version.templates}
    return {
        "kind": version.kind,
        "depends_on": json.dumps([str(ref) for ref in version.depends_on]),
        "carried": json.dumps(carried),
        "content": version.content,
        "registered_at": row.registered_at,
        "retired_at": row.retired_at,
    }


def _row(row: Row[Any]) -> VersionRow:
    carried = json.loads(row.carried)
    version = Version(
        row.name,
        row.version,
        row.kind,
        tuple(Ref.parse(text) for text in json.loads(row.depends_on)),
        tuple(carried["prints"]),
        tuple(carried["models"]),
        tuple(tuple(segments) for segments in carried["templates"]),
        row.content,
        retired=row.retired_at is not None,
        shared=row.scope == EVERYBODY,
    )
    return VersionRow(row.scope, version, row.registered_at, row.retired_at)
