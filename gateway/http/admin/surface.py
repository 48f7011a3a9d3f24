"""All below `/admin/`: access, then body, then route, so that strangers cannot tell which routes there are."""

import time

from gateway.errors import ApiError
from gateway.http.admin.access import Access
from gateway.http.admin.asked import AdminAsk
from gateway.http.admin.once import Once
from gateway.http.admin.problems import problem_bytes, problem_headers
from gateway.http.asgi import ClientGone, Endpoint, Headers, Message, Receive, Scope, Send, read_body, send_whole
from gateway.http.edge import new_id
from gateway.http.reply import id_headers
from gateway.settings import LimitSettings
from gateway.telemetry.logs import RequestLog
from policies.strict_json import StrictJsonError, loads

_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
_NO_STORE = (b"cache-control", b"no-store")
_BODILESS = frozenset({"GET", "HEAD"})
_JSON = (b"content-type", b"application/json")
_GONE = 499


class AdminSurface:
    """Answers the administrator.

    Args:
        access: asked before anything else is looked at.
        app: the routes, as gateway.http.admin.app builds them.
        once: keeps what idempotency keys need.
        limits: of bodies.
        log: gets one event per request, without what was asked.
    """

    def __init__(self, access: Access, app: Endpoint, once: Once, limits: LimitSettings, log: RequestLog) -> None:
        self._access = access
        self._app = app
        self._once = once
        self._limits = limits
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        begun, request_id = time.perf_counter(), new_id("req_")
        ask: AdminAsk | None = None
        status, reason = 0, "-"

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _dress(message, request_id)
            await send(message)

        try:
            caller = await self._access.check(scope)
            ask = AdminAsk(caller, b"", self._once)
            ask.body = await self._body(scope, receive)
            await self._app(_scope(scope, ask), _again(ask.body, receive), told)
        except ApiError as error:
            reason = error.code or error.kind
            await send_whole(told, error.status, problem_headers(error), problem_bytes(error))
        except ClientGone:
            status = _GONE
        finally:
            took_ms = round((time.perf_counter() - begun) * 1000, 3)
            event = {"request_id": request_id, "route": "admin" if ask is None else ask.route, "status": status}
            actor = "-" if ask is None else ask.caller.actor
            reason = reason if ask is None or reason != "-" else ask.reason
            self._log({**event, "actor": actor, "reason": reason, "latency_ms": took_ms})

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The decoded body, which is strict JSON with an object on top, or empty."""
        if scope["method"] in _BODILESS:
            return b""
        raw = await read_body(receive, scope["headers"], self._limits.body_bytes, self._limits.receive_s)
        if not raw:
            return b""
        try:
            body = loads(raw)
        except StrictJsonError as error:
            raise ApiError(400, f"Bad request body: {error}.", code="invalid_json") from None
        if not isinstance(body, dict):
            raise ApiError(400, "Bad request body: it is no JSON object.", code="invalid_json")
        return raw


def _scope(scope: Scope, ask: AdminAsk) -> Scope:
    """The scope as the routes see it: the body is decoded JSON, whatever the client called it."""
    dropped = (b"content-type", b"content-encoding", b"content-length")
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    if ask.body:
        headers += [_JSON, (b"content-length", b"%d" % len(ask.body))]
    return {**scope, "headers": headers, AdminAsk.IN_SCOPE: ask}


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, then whatever else comes."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def _dress(message: Message, request_id: str) -> None:
    headers: Headers = list(message.get("headers", ()))
    names = {name.lower() for name, _ in headers}
    more: list[tuple[bytes, bytes]] = [*_ALWAYS, _NO_STORE, *id_headers(request_id)]
    message["headers"] = headers + [(name, value) for name, value in more if name not in names]
