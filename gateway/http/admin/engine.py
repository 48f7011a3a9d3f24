"""How the engine is doing, from its own metrics."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from fastapi import APIRouter

from gateway.db import PurgeRepository, TenantRecord
from gateway.errors import ApiError, UpstreamError
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetReader, area
from gateway.layers.salts import Salts
from gateway.providers.prefixes import TreeOutline, cached_prefixes, tree_name
from gateway.providers.scrape import scrape
from gateway.telemetry.engine_figures import engine_figures

_NOT_FOUND = 404


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

    owners = _Owners(desk)

    @router.get("/engine/prefixes", summary="Cached prefixes")
    async def prefixes(_caller: FleetReader) -> dict[str, Any]:
        """The trees of prefixes that the engine has cached, and the runs of tokens that were found most often.

        A run ends where prompts part; `parent` is the run that it continues. `hits` are look-ups that found it,
        `saved_tokens` what these did not compute. `tenant_id` is null where no present tenant's salt leads to a
        tree: after a purge of persons, or when others than this set ask the engine. No token of a prompt is told.
        """
        url = desk.settings.engine_url
        if url is None:
            return {"used": False, "reason": "no_engine"}
        try:
            told = await cached_prefixes(url)
        except UpstreamError as error:
            if error.status == _NOT_FOUND:
                return {"used": False, "reason": "not_told"}
            raise _unavailable("The engine does not answer.", "engine_unavailable") from None
        except ValueError:
            raise _unavailable("The engine's prefixes cannot be read.", "engine_unreadable") from None
        known = await owners.by_tree() if told.told else {}
        items = [_item(one, told.block_size, known.get(one.name)) for one in told.told]
        head = {"used": True, "block_size": told.block_size, "trees": told.trees, "complete": told.complete}
        return {**head, "items": items}

    return router


class _Owners:
    """Whose tree each is now; made anew when a tenant or a purge is new."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heads: dict[str, tuple[int, int]] | None = None
        self._found: dict[str, TenantRecord] = {}

    async def by_tree(self) -> dict[str, TenantRecord]:
        purges = PurgeRepository(self._desk.database)
        heads = await purges.heads()
        if heads != self._heads:
            tenants, epochs = await self._desk.tenants.list(), await purges.prefix_epochs()
            self._found = await asyncio.to_thread(_names, self._desk.salts, tenants, epochs)
            self._heads = heads
        return self._found


def _names(salts: Salts, tenants: Sequence[TenantRecord], epochs: Mapping[str, int]) -> dict[str, TenantRecord]:
    return {tree_name(salts.of(one.tenant_id, epochs.get(one.tenant_id, 0))): one for one in tenants}


def _item(told: TreeOutline, block_size: int, owner: TenantRecord | None) -> dict[str, Any]:
    tenant_id, name = (None, None) if owner is None else (owner.tenant_id, owner.name)
    runs = [msgspec.structs.asdict(run) for run in told.runs]
    return {"tenant_id": tenant_id, "name": name, "cached_tokens": told.blocks * block_size, "runs": runs}


def _unavailable(why: str, code: str) -> ApiError:
    return ApiError(503, why, code=code, kind="server_error", headers={"retry-after": "1"})
