"""Makes the engine forget what it cached under salts."""

import asyncio
from collections.abc import Sequence

import aiohttp
import orjson

from gateway.errors import UpstreamError
from gateway.providers.scrape import address_of

_DEADLINE_S = 30.0


async def purge_salts(base_url: str, salts: Sequence[str]) -> int:
    """Forgets the blocks under these salts, in every tier of the engine; returns how many those were.

    Raises:
        UpstreamError: the engine does not answer, or cannot do this.
    """
    if not salts:
        return 0
    connector, address = address_of(base_url, "/cache/purge")
    try:
        async with (
            asyncio.timeout(_DEADLINE_S),
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.post(address, data=orjson.dumps({"salts": list(salts)})) as response,
        ):
            if response.status == 200:  # noqa: PLR2004  (HTTP OK)
                return int(orjson.loads(await response.read())["blocks"])
            status = response.status
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
        status = 503
    raise UpstreamError("connect", status, {})
