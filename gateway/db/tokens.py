"""Administrators' tokens: made, listed, revoked. The token itself leaves once; only its SHA-256 stays."""

import json
from collections.abc import Sequence

from sqlalchemy import Row, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_text, is_name_or_id, key_digest, make_token, make_token_id
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import TOKEN_ROLES, TokenRecord, TokenRole
from gateway.db.tables import ADMIN_TOKENS
from gateway.db.tenants import require_tenant

_HINT_CHARS = 4
_MOST_TENANTS = 1000
_TOKENS = ADMIN_TOKENS.c


class TokenRepository:
    """Tokens by id and by digest."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(  # noqa: PLR0917  (the columns of one row, each by name in any sane call)
        self,
        label: str,
        role: TokenRole,
        tenants: Sequence[str] | None,
        expires_at: float | None,
        actor: str,
        now_s: float,
    ) -> tuple[TokenRecord, str]:
        """Makes a token and returns its record and the token itself, which can never be read again.

        Args:
            label: free text to know the token by.
            role: what its holder may do.
            tenants: names or ids of the tenants it is bound to; None for every one.
            expires_at: when it stops to open anything; None for never.
            actor: who asks, for the audit.
            now_s: seconds since the epoch.

        Raises:
            RecordError: not_found: no such tenant; invalid: label, role, an empty list, or a time gone by.
        """
        check_text("the label", label)
        check_text("the actor", actor)
        _check(role, tenants, expires_at, now_s)
        secret = make_token()

        async def work(connection: AsyncConnection) -> TokenRecord:
            bound = None if tenants is None else await _bound(connection, tenants)
            record = TokenRecord(
                make_token_id(),
                key_digest(secret),
                label,
                secret[-_HINT_CHARS:],
                role,
                bound,
                now_s,
                expires_at,
                None,
            )
            await _insert(connection, record, actor)
            return record

        return await self._database.write(work), secret

    async def list(self, limit: int = _MOST_TENANTS, after: str = "") -> list[TokenRecord]:
        """Lists tokens by id, revoked and expired ones too."""
        query = select(ADMIN_TOKENS).where(_TOKENS.id > after).order_by(_TOKENS.id).limit(limit)

        async def work(connection: AsyncConnection) -> list[TokenRecord]:
            return [_record(row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def by_digest(self, digest: bytes) -> TokenRecord | None:
        """Finds a token by its digest, also one that opens nothing any more."""
        query = select(ADMIN_TOKENS).where(_TOKENS.digest == digest)

        async def work(connection: AsyncConnection) -> TokenRecord | None:
            row = (await connection.execute(query)).one_or_none()
            return None if row is None else _record(row)

        return await self._database.read(work)

    async def revoke(self, token_id: str, actor: str, now_s: float) -> TokenRecord:
        """Shuts a token out for good; a second time changes nothing.

        Raises:
            RecordError: not_found.
        """
        check_text("the actor", actor)

        async def work(connection: AsyncConnection) -> TokenRecord:
            live = update(ADMIN_TOKENS).where(_TOKENS.id == token_id, _TOKENS.revoked_at.is_(None))
            known = is_name_or_id(token_id)
            if known and (await connection.execute(live.values(revoked_at=now_s))).rowcount:
                await audit.record(
                    connection,
                    "token.revoke",
                    actor_at=(actor, now_s),
                    tenant_id=None,
                    target=token_id,
                    detail={},
                )
            query = select(ADMIN_TOKENS).where(_TOKENS.id == token_id)
            row = (await connection.execute(query)).one_or_none() if known else None
            if row is None:
                raise RecordError("not_found", f"there is no token with id {token_id[:80]!r}")
            return _record(row)

        return await self._database.write(work)


def _check(role: str, tenants: Sequence[str] | None, expires_at: float | None, now_s: float) -> None:
    if role not in TOKEN_ROLES:
        raise RecordError("invalid", f"a role is {', '.join(TOKEN_ROLES)}, not {role[:40]!r}")
    if tenants is not None and not 0 < len(tenants) <= _MOST_TENANTS:
        raise RecordError("invalid", f"a token is bound to 1 to {_MOST_TENANTS} tenants, or to none in particular")
    if expires_at is not None and not now_s < expires_at < float("inf"):
        raise RecordError("invalid", "a token cannot expire before it is made")


async def _bound(connection: AsyncConnection, tenants: Sequence[str]) -> frozenset[str]:
    return frozenset([(await require_tenant(connection, one)).tenant_id for one in tenants])


async def _insert(connection: AsyncConnection, record: TokenRecord, actor: str) -> None:
    bound = None if record.tenants is None else sorted(record.tenants)
    await connection.execute(
        insert(ADMIN_TOKENS).values(
            id=record.token_id,
            digest=record.digest,
            label=record.label,
            hint=record.hint,
            role=record.role,
            tenants=None if bound is None else json.dumps(bound),
            created_at=record.created_at,
            expires_at=record.expires_at,
        )
    )
    await audit.record(
        connection,
        "token.create",
        actor_at=(actor, record.created_at),
        tenant_id=None,
        target=record.token_id,
        detail={
            "label": record.label,
            "hint": record.hint,
            "role": record.role,
            "tenants": bound,
            "expires_at": record.expires_at,
        },
    )


def _record(row: Row[tuple[object, ...]]) -> TokenRecord:
    values = row._mapping  # noqa: SLF001  (SQLAlchemy's public name for it)
    bound = values["tenants"]
    return TokenRecord(
        values["id"],
        values["digest"],
        values["label"],
        values["hint"],
        values["role"],
        None if bound is None else frozenset(json.loads(bound)),
        values["created_at"],
        values["expires_at"],
        values["revoked_at"],
    )
