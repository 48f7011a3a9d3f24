"""Reads a plain page of the engine (metrics, health) over its socket, with a short deadline."""

import asyncio

import aiohttp
from yarl import URL

from gateway.errors import UpstreamError

_DEADLINE_S = 1.0
_MAX_BYTES = 4 << 20


async def scrape(base_url: str, path: str) -> bytes:
    """The body of a 200 answer.

    Args:
        base_url: `unix:///path.sock` or `http(s)://host:port[/v1]`.
        path: from the server's root, such as `/metrics`.

    Raises:
        UpstreamError: no 200 within a second.
    """
    connector, address = address_of(base_url, path)
    try:
        async with (
            asyncio.timeout(_DEADLINE_S),
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(address) as response,
        ):
            if response.status == 200:  # noqa: PLR2004  (HTTP OK)
                return await response.content.read(_MAX_BYTES)
            status = response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        status = 503
    raise UpstreamError("connect", status, {})


def address_of(base_url: str, path: str) -> tuple[aiohttp.BaseConnector, URL]:
    """How to reach a page of the engine: over what, and under which URL."""
    url = URL(base_url)
    if url.scheme == "unix":
        return aiohttp.UnixConnector(url.path), URL("http://engine").with_path(path)
    return aiohttp.TCPConnector(), url.origin().with_path(path)
