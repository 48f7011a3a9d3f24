"""The latest requests of all workers, without their texts."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import ConfigDict

from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Reader, area
from gateway.ledger.feed import MOST_LINES

Word = Annotated[str | None, Query(max_length=200)]
Layer = Literal["exact", "semantic", "coalesced", "model", "none"]

_LINE: dict[str, Any] = {
    "at": 1796025600.25,
    "request_id": "req_0123456789abcdef01234567",
    "tenant_id": "ten_0123456789abcdef",
    "surface": "chat",
    "route": "small",
    "provider": "openai",
    "model": "gpt-5.4-mini",
    "layer": "exact",
    "cache": "HIT",
    "reason": "exact",
    "status": 200,
    "stream": False,
    "prompt_tokens": 812,
    "cached_tokens": 0,
    "completion_tokens": 64,
    "ms": 0.61,
    "ttft_ms": None,
    "cost_usd": "0",
    "saved_usd": "0.000897",
}


class FeedSaid(Said):
    """The latest requests, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"on": True, "items": [_LINE]}]})

    on: bool
    items: list[dict[str, Any]]


def feed_router(desk: Desk) -> APIRouter:
    """The feed; a token that is bound to some tenants sees theirs."""
    router = area("feed")
    feed = desk.ledger.feed

    @router.get("/feed", summary="The latest requests")
    async def latest(
        caller: Reader,
        *,
        limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100,
        after: Annotated[float, Query(description="Only later ones, in seconds since 1970.")] = 0.0,
        tenant: Word = None,
        layer: Layer | None = None,
        route: Word = None,
        model: Word = None,
        failed: Annotated[bool | None, Query(description="Only those that ended badly, or well.")] = None,
    ) -> FeedSaid:
        """Who asked, who answered and why, with tokens, time and money; about the last thousand are kept."""
        if feed is None:
            return FeedSaid(on=False, items=[])
        tenant_id = None if tenant is None else (await desk.tenant(caller, tenant)).tenant_id
        wanted = {"tenant_id": tenant_id, "layer": layer, "route": route, "model": model}
        exactly = {name: value for name, value in wanted.items() if value is not None}

        def fits(line: dict[str, Any]) -> bool:
            if not caller.may(line["tenant_id"]) or line["at"] <= after:
                return False
            if failed is not None and (line.get("status") != HTTPStatus.OK) != failed:
                return False
            return all(line.get(name) == value for name, value in exactly.items())

        return FeedSaid(on=True, items=await feed.latest(fits, limit))

    return router
