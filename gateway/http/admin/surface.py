"""All below `/admin/`: access first, then the route, so that a stranger cannot tell which ones there are."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.errors import ApiError
from gateway.http.admin.access import Access
from gateway.http.asgi import JSON, ClientGone, Headers, Receive, Scope, Send, read_body, send_whole
from gateway.http.edge import new_id
from gateway.http.native import send_error
from gateway.http.reply import id_headers
from gateway.settings import LimitSettings
from gateway.telemetry.logs import RequestLog
from policies.strict_json import StrictJsonError, loads
from policies.types import Json

Work = Callable[[Json], Awaitable[Mapping[str, Any]]]
"""What a route does with the request's JSON object, empty for a GET; may raise ApiError."""

_NO_STORE = (b"cache-control", b"no-store")


@dataclass(frozen=True, slots=True)
class AdminRoute:
    """One route: its method, GET or POST, and what it does."""

    method: str
    work: Work


class AdminSurface:
    """Answers the administrator in JSON.

    Args:
        access: asked before anything else is looked at.
        routes: by whole path.
        limits: of bodies.
        log: gets one event per request, without what was asked.
    """

    def __init__(
        self, access: Access, routes: Mapping[str, AdminRoute], limits: LimitSettings, log: RequestLog
    ) -> None:
        self._access = access
        self._routes = routes
        self._limits = limits
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        begun, request_id = time.perf_counter(), new_id("req_")
        status, name, reason = 0, "admin", "-"
        try:
            await self._access.check(scope["headers"])
            route = self._route(scope)
            name = f"admin.{scope['path'].rpartition('/')[2]}"
            body = await self._body(route, scope, receive)
            answer = orjson.dumps(await route.work(body))
            status = 200
            headers: Headers = [JSON, _NO_STORE, *id_headers(request_id)]
            await send_whole(send, 200, headers, answer)
        except ApiError as error:
            status, reason = error.status, error.code or error.kind
            await send_error(scope, send, error)
        except ClientGone:
            status = 499
        finally:
            took_ms = round((time.perf_counter() - begun) * 1000, 3)
            event = {"request_id": request_id, "route": name, "status": status}
            self._log({**event, "reason": reason, "latency_ms": took_ms})

    def _route(self, scope: Scope) -> AdminRoute:
        path, method = scope["path"], scope["method"]
        route = self._routes.get(path)
        if route is None:
            raise ApiError(404, f"There is no {path[:100]}; there are {', '.join(self._routes)}.")
        if method != route.method:
            raise ApiError(405, f"{path[:100]} takes {route.method}.", headers={"allow": route.method})
        return route

    async def _body(self, route: AdminRoute, scope: Scope, receive: Receive) -> Json:
        if route.method == "GET":
            return {}
        raw = await read_body(receive, scope["headers"], self._limits.body_bytes, self._limits.receive_s)
        try:
            body = loads(raw)
        except StrictJsonError as error:
            raise ApiError(400, f"Bad request body: {error}.", code="invalid_json") from None
        if not isinstance(body, dict):
            raise ApiError(400, "Bad request body: it is no JSON object.", code="invalid_json")
        return body
