"""API keys: made, listed, revoked. The key itself leaves once, on creation; only its SHA-256 stays."""

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_key, check_text, is_name_or_id, key_digest, make_key, make_key_id
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import KeyRecord, TenantRecord, TenantState
from gateway.db.tables import API_KEYS, TENANTS
from gateway.db.tenants import require_state, require_tenant

_HINT_CHARS = 4


class KeyRepository:
    """Keys by id. Each change bumps its tenant's `auth_seq` in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, tenant: str, label: str, actor: str, now_s: float, key: str | None = None
    ) -> tuple[KeyRecord, str]:
        """Makes a key and returns its record and the key itself, which can never be read again.

        Args:
            tenant: name or id.
            label: free text to know the key by.
            actor: who asks, for the audit.
            now_s: seconds since the epoch.
            key: a preset key (at least 16 visible characters); a random one when absent.

        Raises:
            RecordError: not_found: no such tenant; conflict: it is disabled, or the preset key exists already;
                invalid: the label or the preset key.
        """
        check_text("the label", label)
        check_text("the actor", actor)
        secret = make_key() if key is None else check_key(key)

        async def work(connection: AsyncConnection) -> KeyRecord:
            owner = await require_tenant(connection, tenant)
            return await insert_key(connection, owner, secret, label=label, actor=actor, now_s=now_s)

        return await self._database.write(work), secret

    async def list(self, tenant: str) -> list[KeyRecord]:
        """Lists a tenant's keys, oldest first, revoked ones too.

        Raises:
            RecordError: not_found.
        """

        async def work(connection: AsyncConnection) -> list[KeyRecord]:
            owner = await require_tenant(connection, tenant)
            return list((await require_state(connection, owner.tenant_id)).keys)

        return await self._database.read(work)

    async def revoke(self, key_id: str, actor: str, now_s: float) -> TenantState:
        """Shuts a key out for good; a second time changes nothing. Returns its tenant's state after it.

        Raises:
            RecordError: not_found.
        """
        check_text("the actor", actor)

        async def work(connection: AsyncConnection) -> TenantState:
            tenant_id = await _owner(connection, key_id)
            changed = await connection.execute(
                update(API_KEYS)
                .where(API_KEYS.c.id == key_id, API_KEYS.c.revoked_at.is_(None))
                .values(revoked_at=now_s)
            )
            if changed.rowcount:
                await _bump(connection, tenant_id)
                await audit.record(
                    connection,
                    "key.revoke",
                    actor_at=(actor, now_s),
                    tenant_id=tenant_id,
                    target=key_id,
                    detail={},
                )
            return await require_state(connection, tenant_id)

        return await self._database.write(work)


async def insert_key(
    connection: AsyncConnection, tenant: TenantRecord, secret: str, *, label: str, actor: str, now_s: float
) -> KeyRecord:
    """Inserts a key, bumps its tenant and writes the audit row, inside the caller's transaction.

    Raises:
        RecordError: conflict: the tenant is disabled, or the key exists already.
    """
    # the tenant's row is locked first, so that it cannot be disabled between the check and the insert
    if not await _bump(connection, tenant.tenant_id, live_only=True):
        raise RecordError("conflict", f"tenant {tenant.name!r} is revoked and takes no new keys")
    hint = secret[-_HINT_CHARS:]
    record = KeyRecord(make_key_id(), tenant.tenant_id, key_digest(secret), label, hint, now_s, None)
    try:
        await connection.execute(
            insert(API_KEYS).values(
                id=record.key_id,
                tenant_id=record.tenant_id,
                digest=record.digest,
                label=label,
                hint=hint,
                created_at=now_s,
            )
        )
    except IntegrityError:
        raise RecordError("conflict", "this key exists already") from None
    await audit.record(
        connection,
        "key.create",
        actor_at=(actor, now_s),
        tenant_id=tenant.tenant_id,
        target=record.key_id,
        detail={"label": label, "hint": hint},
    )
    return record


async def key_exists(connection: AsyncConnection, digest: bytes) -> bool:
    """Says whether any tenant has, or had, the key with this digest."""
    query = select(API_KEYS.c.id).where(API_KEYS.c.digest == digest)
    return (await connection.execute(query)).first() is not None


async def _owner(connection: AsyncConnection, key_id: str) -> str:
    if is_name_or_id(key_id):
        query = select(API_KEYS.c.tenant_id).where(API_KEYS.c.id == key_id)
        tenant_id = (await connection.execute(query)).scalar_one_or_none()
        if tenant_id is not None:
            return str(tenant_id)
    raise RecordError("not_found", f"there is no key with id {key_id[:80]!r}")


async def _bump(connection: AsyncConnection, tenant_id: str, *, live_only: bool = False) -> bool:
    query = update(TENANTS).where(TENANTS.c.id == tenant_id).values(auth_seq=TENANTS.c.auth_seq + 1)
    if live_only:
        query = query.where(TENANTS.c.disabled_at.is_(None))
    return (await connection.execute(query)).rowcount == 1
