"""Administrators' tokens: listed, made and shown once, revoked."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.db import TokenRecord, TokenRepository, TokenRole
from gateway.http.admin.bodies import Body, Name, Page, Said, Text, paged
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetAdmin, Paged, area

Seconds = Annotated[float, Field(gt=0, le=10 * 366 * 86_400)]
_EXAMPLE: dict[str, Any] = {
    "label": "deploy hook",
    "role": "operator",
    "tenants": ["default"],
    "ttl_s": 2_592_000.0,
}


class NewToken(Body):
    """A token to be made.

    Attributes:
        label: to know it by.
        role: reader, operator or admin; each may do what those before it may.
        tenants: names or ids of the tenants it is bound to; null for every one.
        ttl_s: how long it opens anything; null for ever.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    label: Text = ""
    role: TokenRole
    tenants: list[Name] | None = Field(default=None, min_length=1, max_length=1000)
    ttl_s: Seconds | None = None


class Token(Said):
    """A token, without what opens.

    Attributes:
        hint: its last four characters.
        tenants: ids of the tenants it is bound to; null for every one.
    """

    id: str = Field(examples=["A0123456789ABCDEF"])
    label: str = Field(examples=["deploy hook"])
    hint: str = Field(examples=["x4Qz"])
    role: TokenRole
    tenants: list[str] | None = Field(examples=[["T0123456789ABCDEF"]])
    created_at: float = Field(examples=[1764489600.0])
    expires_at: float | None = Field(examples=[1767081600.0])
    revoked_at: float | None = Field(examples=[None])


class MadeToken(Token):
    """A token that was made.

    Attributes:
        token: the token itself, shown this once.
    """

    token: str = Field(examples=["lat_…"])


def tokens_router(desk: Desk) -> APIRouter:
    """Tokens; only an administrator of every tenant hands them out."""
    router, tokens = area("tokens"), TokenRepository(desk.database)

    @router.get("/tokens", summary="List tokens")
    async def list_(_caller: FleetAdmin, page: Paged) -> Page[Token]:
        """By id, revoked and expired ones too."""
        found = await tokens.list(page.limit + 1, page.after or "")
        return paged(found, page.limit, lambda row: row.token_id, _shown)

    @router.post("/tokens", status_code=201, summary="Make a token")
    async def create(caller: FleetAdmin, body: NewToken) -> MadeToken:
        """The answer is the only place where the token is ever shown."""
        now_s = desk.now_s()
        until = None if body.ttl_s is None else now_s + body.ttl_s
        record, secret = await tokens.create(body.label, body.role, body.tenants, until, caller.actor, now_s)
        return MadeToken(**_shown(record).model_dump(), token=secret)

    @router.delete("/tokens/{token_id}", summary="Revoke a token")
    async def revoke(caller: FleetAdmin, token_id: Name) -> Token:
        """For good, from the next request on."""
        return _shown(await tokens.revoke(token_id, caller.actor, desk.now_s()))

    return router


def _shown(row: TokenRecord) -> Token:
    return Token(
        id=row.token_id,
        label=row.label,
        hint=row.hint,
        role=row.role,
        tenants=None if row.tenants is None else sorted(row.tenants),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
