"""The first tenant and the first key, so that a fresh set can be used at once."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.credentials import check_key, key_digest, make_key
from gateway.db.database import Database
from gateway.db.keys import insert_key, key_exists
from gateway.db.tables import TENANTS
from gateway.db.tenants import insert_tenant, require_tenant

DEFAULT_TENANT = "default"
_ACTOR = "bootstrap"


async def bootstrap(db: Database, preset_key: str | None, now_s: float) -> str | None:
    """Makes sure that somebody can sign in. Idempotent, and safe when several processes start at once.

    An empty database gets the tenant `default` with one key: the preset one, or a fresh one. In any other
    database a preset key that nobody has, or ever had, is added to `default`; a revoked one stays revoked, and a
    disabled `default` stays shut.

    Args:
        db: a migrated database.
        preset_key: from the settings, or None.
        now_s: seconds since the epoch.

    Returns:
        The key, when one was made; None when nothing was changed.

    Raises:
        RecordError: invalid: the preset key cannot serve as one.
        DatabaseUnavailable: see `Database.write`.
    """
    secret = make_key() if preset_key is None else check_key(preset_key)

    async def work(connection: AsyncConnection) -> str | None:
        names = {row.name: row.disabled_at for row in await connection.execute(_NAMES)}
        if names and (preset_key is None or await key_exists(connection, key_digest(secret))):
            return None
        if names.get(DEFAULT_TENANT) is not None:
            return None
        if DEFAULT_TENANT in names:
            tenant = await require_tenant(connection, DEFAULT_TENANT)
        else:
            tenant = await insert_tenant(connection, DEFAULT_TENANT, _ACTOR, now_s)
        await insert_key(connection, tenant, secret, label="bootstrap", actor=_ACTOR, now_s=now_s)
        return secret

    return await db.write(work, alone=True)


_NAMES = select(TENANTS.c.name, TENANTS.c.disabled_at)
