"""The ASGI application of one worker: lifespan builds and closes the gateway, everything else is the router's."""

from gateway.http.asgi import Message, Receive, Scope, Send
from gateway.settings import Settings
from gateway.wiring import Gateway, build

_CLOSE = {"type": "websocket.close", "code": 1008}


class App:
    """Made without I/O; the gateway exists from lifespan start to lifespan end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.gateway: Gateway | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] == "http" and self.gateway is not None:
            await self.gateway.router(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send(_CLOSE)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self.gateway = await build(self._settings)
        except Exception as error:
            await send(_failed(error))
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.gateway.close()
        await send({"type": "lifespan.shutdown.complete"})


def _failed(error: Exception) -> Message:
    return {"type": "lifespan.startup.failed", "message": str(error)}


def create_app(settings: Settings) -> App:
    """The application of these settings."""
    return App(settings)
