"""Tenants' API keys: listed, made and shown once, revoked."""

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.db import KeyRecord, KeyRepository, RecordError
from gateway.http.admin.bodies import Body, Name, Page, Said, Text, paged
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Admin, Paged, Reader, area


class NewKey(Body):
    """A key to be made.

    Attributes:
        label: to know it by.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": "chat backend"}]})

    label: Text = ""


class Key(Said):
    """A key, without what opens.

    Attributes:
        hint: its last four characters.
    """

    id: str = Field(examples=["K0123456789ABCDEF"])
    tenant_id: str = Field(examples=["T0123456789ABCDEF"])
    label: str = Field(examples=["chat backend"])
    hint: str = Field(examples=["x4Qz"])
    created_at: float = Field(examples=[1764489600.0])
    revoked_at: float | None = Field(examples=[None])


class MadeKey(Key):
    """A key that was made.

    Attributes:
        key: the key itself, shown this once.
        announced: whether every worker is known to accept it; else each does within about a second.
    """

    key: str = Field(examples=["lam_…"])
    announced: bool


class RevokedKey(Said):
    """A key that opens nothing any more."""

    id: str = Field(examples=["K0123456789ABCDEF"])
    tenant_id: str = Field(examples=["T0123456789ABCDEF"])
    revoked: bool = True
    announced: bool


def keys_router(desk: Desk) -> APIRouter:
    """Keys, below their tenant."""
    router, keys = area("keys"), KeyRepository(desk.database)

    @router.get("/tenants/{tenant}/keys", summary="List keys")
    async def list_(caller: Reader, tenant: Name, page: Paged) -> Page[Key]:
        """Oldest first, revoked ones too."""
        owner = await desk.tenant(caller, tenant)
        found = await keys.list(owner.tenant_id)
        ids = [key.key_id for key in found]
        begin = ids.index(page.after) + 1 if page.after in ids else 0
        return paged(found[begin : begin + page.limit + 1], page.limit, lambda key: key.key_id, _shown)

    @router.post("/tenants/{tenant}/keys", status_code=201, summary="Make a key")
    async def create(caller: Admin, tenant: Name, body: NewKey) -> MadeKey:
        """The answer is the only place where the key is ever shown."""
        owner = await desk.tenant(caller, tenant)
        record, secret = await keys.create(owner.tenant_id, body.label, caller.actor, desk.now_s())
        state = await desk.tenants.state(owner.tenant_id)
        announced = state is not None and await desk.announce(owner.tenant_id, state.auth_seq, state.purge_seq)
        return MadeKey(**_shown(record).model_dump(), key=secret, announced=announced)

    @router.delete("/tenants/{tenant}/keys/{key_id}", summary="Revoke a key")
    async def revoke(caller: Admin, tenant: Name, key_id: Name) -> RevokedKey:
        """For good, from the next request on."""
        owner = await desk.tenant(caller, tenant)
        if key_id not in {key.key_id for key in await keys.list(owner.tenant_id)}:
            raise RecordError("not_found", f"tenant {owner.name!r} has no key with id {key_id!r}")
        state = await keys.revoke(key_id, caller.actor, desk.now_s())
        announced = await desk.announce(state.tenant_id, state.auth_seq, state.purge_seq)
        return RevokedKey(id=key_id, tenant_id=state.tenant_id, announced=announced)

    return router


def _shown(row: KeyRecord) -> Key:
    return Key(
        id=row.key_id,
        tenant_id=row.tenant_id,
        label=row.label,
        hint=row.hint,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
    )
