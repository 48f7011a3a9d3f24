"""A small ASGI app and the ways of making one that supervisor tests put in the gateway's place."""

import asyncio
import os
from typing import Any

from gateway.settings import Settings


def create_app(settings: Settings) -> Any:
    """Answers with the worker's process id; `/slow/S` takes S seconds, `/secret` shows that settings arrived."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        path = scope["path"]
        body = str(os.getpid())
        if path.startswith("/slow/"):
            await asyncio.sleep(float(path.removeprefix("/slow/")))
        elif path == "/secret":
            body = str(settings.secret is not None and len(settings.secret.get_secret_value()) >= 32)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body.encode()})

    return app


def broken_app(_settings: Settings) -> Any:
    """Fails as a gateway with a bug at start would."""
    raise RuntimeError("broken on purpose")


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
