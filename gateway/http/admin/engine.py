"""How the engine is doing, from its own metrics."""

from dataclasses import asdict
from typing import Any

import msgspec
from fastapi import APIRouter

from gateway.db import PurgeRepository, TenantRecord
from gateway.errors import ApiError, UpstreamError
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetReader, area
from gateway.providers.prefixes import SaltOutline, cached_prefixes
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

    @router.get("/engine/prefixes", summary="Cached prefixes")
    async def prefixes(_caller: FleetReader) -> dict[str, Any]:
        """Per tenant what the engine has cached, and the runs of tokens that were found again most often.

        A run ends where prompts part, and `parent` is the run that it continues. `saved_tokens` were not computed
        again thanks to it. `tenant_id` is null for what is kept under a salt that nobody sends any more. No token
        of a prompt is told.
        """
        url = desk.settings.engine_url
        if url is None:
            return {"used": False, "reason": "no_engine"}
        try:
            told = await cached_prefixes(url)
        except UpstreamError:
            raise _unavailable("The engine does not answer.", "engine_unavailable") from None
        except ValueError:
            raise _unavailable("The engine's prefixes cannot be read.", "engine_unreadable") from None
        owners = await _owners(desk) if told.told else {}
        items = [_item(one, told.block_size, owners.get(one.salt)) for one in told.told]
        return {"used": True, "block_size": told.block_size, "tenants": told.tenants, "items": items}

    return router


async def _owners(desk: Desk) -> dict[str, TenantRecord]:
    """Whose salt each is now."""
    tenants = await desk.tenants.list()
    epochs = await PurgeRepository(desk.database).prefix_epochs()
    return {desk.salts.of(one.tenant_id, epochs.get(one.tenant_id, 0)): one for one in tenants}


def _item(told: SaltOutline, block_size: int, owner: TenantRecord | None) -> dict[str, Any]:
    tenant_id, name = (None, None) if owner is None else (owner.tenant_id, owner.name)
    runs = [msgspec.structs.asdict(run) for run in told.runs]
    return {"tenant_id": tenant_id, "name": name, "cached_tokens": told.blocks * block_size, "runs": runs}


def _unavailable(why: str, code: str) -> ApiError:
    return ApiError(503, why, code=code, kind="server_error", headers={"retry-after": "1"})
