"""The route table of the model surfaces: exact paths, one method each, native errors for everything else."""

import structlog

from gateway.errors import ApiError, UpstreamError
from gateway.http.asgi import (
    JSON,
    Endpoint,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    send_empty,
    send_whole,
)
from gateway.http.native import send_error
from gateway.http.reply import cors
from gateway.telemetry.metrics import Metrics

ANY = "*"
_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
    (b"access-control-allow-headers", b"*, Authorization"),
    (b"access-control-max-age", b"86400"),
]


class Router:
    """Finds the endpoint of a path.

    Args:
        routes: path → (method, endpoint); `/v1/x` also answers to `/x`; one that ends in `/` takes all below it;
            ANY takes every method, which its endpoint judges.
    """

    def __init__(
        self,
        routes: dict[str, tuple[str, Endpoint]],
        metrics: Metrics,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._exact = {path: route for path, route in routes.items() if not path.endswith("/")}
        self._below = [(path, route) for path, route in routes.items() if path.endswith("/")]
        for path, route in routes.items():
            if path.startswith("/v1/"):
                if path.endswith("/"):
                    self._below.append((path.removeprefix("/v1"), route))
                else:
                    self._exact[path.removeprefix("/v1")] = route
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request; a fault of ours is a native 500, recorded, and never ends the process."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._dispatch(scope, receive, watched)
        except (ApiError, UpstreamError) as error:
            await send_error(scope, send, error)
        except Exception as error:  # noqa: BLE001  (the edge: recorded, and the client gets a native error)
            self._metrics.fault("gateway", type(error).__name__)
            self._log.error("fault", part="gateway", error=type(error).__name__, exc_info=False)
            if not started:
                fault = ApiError(500, "The gateway failed on this request.", kind="server_error")
                await send_error(scope, send, fault)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        route = self._exact.get(path) or self._prefix(path)
        if method == "OPTIONS":
            await send_empty(send, 204, [*cors(_origin(scope)), *_PREFLIGHT])
        elif path == "/" and method in ("GET", "HEAD"):
            await send_whole(send, 200, [JSON], b'{"name":"lamina"}')
        elif route is None:
            shown = f"{method} {path[:100]}"
            raise ApiError(404, f"Unknown request URL: {shown}. See docs for the surfaces served here.")
        elif route[0] != ANY and method not in (route[0], "HEAD" if route[0] == "GET" else route[0]):
            raise ApiError(405, f"{path[:100]} takes {route[0]}.", headers={"allow": route[0]})
        else:
            await route[1](scope, receive, send)

    def _prefix(self, path: str) -> tuple[str, Endpoint] | None:
        return next((route for prefix, route in self._below if path.startswith(prefix)), None)


def _origin(scope: Scope) -> bytes | None:
    return next((value for name, value in scope["headers"] if name == b"origin"), None)
