"""The service's HTTP surface: a raw ASGI application; bodies are MessagePack of `policies/nomination.py`."""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from policies.nomination import Ask, Near, Pairs, Settle, Texts
from semantic.errors import BusyError, RequestError, SemanticError
from semantic.limits import check_ask, check_near, check_pairs, check_settle, check_texts
from semantic.metrics import CONTENT_TYPE
from semantic.wiring import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 8 << 20
_MOST_OPEN = 256
_WORKERS = 48
_CATCH_UP_S = 0.1
"""Longest wait for the index to reach the change that a look-up names; then it answers with what it has."""

_SETTLE = "/v1/settle"
_MSGPACK = b"application/msgpack"
_PACK = msgspec.msgpack.Encoder().encode


class App:
    """Routes requests to the judge, which works in threads; the lifespan starts and stops what feeds it.

    Args:
        service: to serve.
        token: that requests must carry as a bearer, but for /health; None for none.
    """

    def __init__(self, service: Service, token: str | None) -> None:
        self._service = service
        self._token = None if token is None else _digest(token.encode())
        self._pool = ThreadPoolExecutor(_WORKERS, "judge")
        self._open = 0
        judge = service.judge
        self._settle = msgspec.msgpack.Decoder(Settle)
        self._posted: dict[
            str, tuple[msgspec.msgpack.Decoder[Any], Callable[[Any], None], Callable[[Any], Any]]
        ] = {
            "/v1/nominate": (msgspec.msgpack.Decoder(Ask), check_ask, judge.nominate),
            "/v1/embed": (msgspec.msgpack.Decoder(Texts), check_texts, judge.embed),
            "/v1/verify": (msgspec.msgpack.Decoder(Pairs), check_pairs, judge.verify),
            "/v1/near": (msgspec.msgpack.Decoder(Near), check_near, judge.near),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._service.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        self._pool.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        path = scope["path"]
        try:
            status, body, kind = await self._route(scope, receive)
        except RequestError as error:
            status, body, kind = error.status, _pack_error(str(error)), _MSGPACK
        except BusyError as error:
            status, body, kind = 503, _pack_error(str(error)), _MSGPACK
        except SemanticError as error:
            self._service.metrics.fault("request")
            status, body, kind = 500, _pack_error(str(error)), _MSGPACK
        known = path in self._posted or path in {"/health", "/metrics", _SETTLE}
        self._service.metrics.request(path if known else "other", status, time.perf_counter() - began)
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _route(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes]:
        path, method = scope["path"], scope["method"]
        if path == "/health":
            return self._health()
        self._authorise(scope)
        if path == "/metrics":
            return 200, self._service.metrics.exposition(), CONTENT_TYPE.encode()
        if path not in self._posted and path != _SETTLE:
            raise RequestError(404, f"there is no {path}")
        if method != "POST":
            raise RequestError(405, f"{path} takes POST")
        if path == _SETTLE:
            return 200, await self._settled(await _read_body(receive)), _MSGPACK
        return 200, await self._judged(path, await _read_body(receive)), _MSGPACK

    async def _judged(self, path: str, body: bytes) -> bytes:
        decoder, check, judged = self._posted[path]
        if self._open >= _MOST_OPEN:
            raise BusyError(f"{self._open} requests are open already")
        self._open += 1
        try:
            asked = decoder.decode(body)
            check(asked)
            if isinstance(asked, Ask) and asked.at_least and self._service.follower is not None:
                await self._service.follower.reach(asked.at_least, _CATCH_UP_S)
            return _PACK(await asyncio.get_running_loop().run_in_executor(self._pool, judged, asked))
        except msgspec.DecodeError as error:
            raise RequestError(400, f"the body is not what {path} takes: {error}") from error
        finally:
            self._open -= 1

    async def _settled(self, body: bytes) -> bytes:
        try:
            asked = self._settle.decode(body)
        except msgspec.DecodeError as error:
            raise RequestError(400, f"the body is not what {_SETTLE} takes: {error}") from error
        check_settle(asked)
        return _PACK(await self._service.settle(asked))

    def _authorise(self, scope: Scope) -> None:
        if self._token is None:
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(_digest(token.strip()), self._token):
            raise RequestError(401, "the bearer token is absent or wrong")

    def _health(self) -> tuple[int, bytes, bytes]:
        service, follower = self._service, self._service.follower
        said = {
            "status": "ok" if service.ready else "loading",
            "models": service.judge.models,
            "rows": len(service.index),
            "reached": service.reached,
        }
        if follower is not None and follower.progress.total:
            said |= {"done": follower.progress.done, "total": follower.progress.total}
        return (200 if service.ready else 503), msgspec.json.encode(said), b"application/json"


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client left")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _pack_error(said: str) -> bytes:
    return _PACK({"error": said})
