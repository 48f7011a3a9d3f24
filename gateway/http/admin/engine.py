"""How the engine is doing, from its own metrics."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from gateway.errors import ApiError, UpstreamError
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetReader, area
from gateway.providers.scrape import scrape
from gateway.telemetry.engine_figures import engine_figures


def engine_router(desk: Desk) -> APIRouter:
    """The engine."""
    router = area("engine")

    @router.get("/engine", summary="Engine")
    async def engine(_caller: FleetReader) -> dict[str, Any]:
        """KV use, prefix hits by tier, evictions, queue and times since the engine started, where there is one."""
        url = desk.settings.engine_url
        if url is None:
            return {"used": False, "reason": "no_engine"}
        try:
            figures = engine_figures((await scrape(url, "/metrics")).decode("utf-8", "replace"))
        except UpstreamError:
            raise _unavailable("The engine does not answer.", "engine_unavailable") from None
        except ValueError:
            raise _unavailable("The engine's metrics cannot be read.", "engine_unreadable") from None
        return {"used": True, **asdict(figures)}

    return router


def _unavailable(why: str, code: str) -> ApiError:
    return ApiError(503, why, code=code, kind="server_error", headers={"retry-after": "1"})
