"""Reads a plain page of the engine (metrics, health) over its socket, with a short deadline."""

import asyncio

import aiohttp
from yarl import URL

from gateway.errors import UpstreamError

_DEADLINE_S = 1.0
_MAX_BYTES = 4 << 20


async def scrape(base_url: str, path: str, deadline_s: float = _DEADLINE_S) -> bytes:
    """The body of a 200 answer.

    Args:
        base_url: `unix:///path.sock` or `http(s)://host:port[/v1]`.
        path: from the server's root, such as `/metrics`.
        deadline_s: for connecting and reading together.

    Raises:
        UpstreamError: no 200 within the deadline, or a page of over 4 MiB.
    """
    connector, address = address_of(base_url, path)
    try:
        async with (
            asyncio.timeout(deadline_s),
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(address) as response,
        ):
            if response.status == 200:  # noqa: PLR2004  (HTTP OK)
                return await _whole(response.content)
            status = response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        status = 503
    raise UpstreamError("connect", status, {})


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """All of a body; `read(n)` has what has come so far."""
    page = bytearray()
    async for part in content.iter_any():
        page += part
        if len(page) > _MAX_BYTES:
            raise UpstreamError("protocol", 502, {})
    return bytes(page)


def address_of(base_url: str, path: str) -> tuple[aiohttp.BaseConnector, URL]:
    """How to reach a page of the engine: over what, and under which URL."""
    url = URL(base_url)
    if url.scheme == "unix":
        return aiohttp.UnixConnector(url.path), URL("http://engine").with_path(path)
    return aiohttp.TCPConnector(), url.origin().with_path(path)
