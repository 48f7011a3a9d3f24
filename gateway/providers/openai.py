"""Any server that speaks the OpenAI protocol, over TCP or a Unix socket."""

import asyncio
import errno
import hashlib
import hmac
import io
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import aiohttp
import orjson
from yarl import URL

from gateway.errors import SettingsError, UpstreamError
from gateway.protocols.assemble import ProtocolError, parse_completion
from gateway.providers.contract import ChunkStream, Completed, ProviderCall
from gateway.providers.faults import FOREIGN, GARBLED, failed, from_foreign, refused, relayed
from gateway.providers.marks import with_marks
from gateway.providers.streams import LiveStream, WholeStream
from gateway.providers.trust import open_tls
from gateway.settings import ProviderSettings
from policies.types import ChatResponse

_ANSWER_BYTES = 64 << 20
_ERROR_BYTES = 64 << 10
_LARGE_BODY_BYTES = 1 << 20
_SECRET_CHARS = 8
_KEEP_ALIVE_S = 30.0
_STALE_WITHIN_S = 1.0
_STREAM_TYPES = frozenset({"text/event-stream", "application/octet-stream", "text/plain"})
_REDIRECT, _REFUSED = 300, 400
_STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError)
_STALE_ERRNOS = frozenset({errno.ECONNRESET, errno.EPIPE})


class OpenAIProvider:
    """One upstream and its pool of connections. Meets Provider.

    Makes no connection before the first call. A call whose kept connection turns out to have been closed by the
    upstream in the meantime is sent once more; nothing else is retried.
    """

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self._settings = settings
        self._socket_path, base = _address(name, settings.base_url)
        self._url = (base / "chat" / "completions").with_query(base.query)
        self._headers = _fixed_headers(settings)
        self._hidden = _hidden(settings, self._socket_path, base)
        self._tls = open_tls(name, settings)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @classmethod
    def from_settings(cls, name: str, settings: ProviderSettings) -> Self:
        """The provider `name`; reads its TLS files, and connects to nothing.

        Raises:
            SettingsError: base_url is no address, or a file is not what it should be.
        """
        return cls(name, settings)

    async def complete(self, call: ProviderCall) -> Completed:
        """The whole answer; see Provider."""
        response = await self._send(call, stream=False)
        return Completed(await self._whole(response), relayed(response.headers))

    async def stream(self, call: ProviderCall) -> ChunkStream:
        """Begins a stream; see Provider. An upstream that answers whole is cut into chunks."""
        response = await self._send(call, stream=True)
        headers = relayed(response.headers)
        kind = response.content_type
        if kind.endswith("json"):
            return WholeStream(await self._whole(response), headers)
        if kind not in _STREAM_TYPES:
            response.close()
            raise failed(GARBLED)
        stream = LiveStream(response, headers, self._redact)
        await stream.begin()
        return stream

    async def close(self) -> None:
        """Closes the connections; calls in flight fail."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def fields(self, call: ProviderCall) -> dict[str, Any]:
        """The body's fields besides model and stream; what a kind of upstream adds is added here.

        A client's own `cache_salt` divides its tenant, never another: a server that honours it gets a salt made of
        the tenant's and the client's.
        """
        body = with_marks(call.body, call.marks, self._settings.cache_marks)
        if "cache_salt" in body and call.salt is not None:
            salted = hmac.digest(call.salt.encode(), orjson.dumps(body["cache_salt"]), hashlib.sha256)
            body = {**body, "cache_salt": salted.hex()}
        return body

    def stream_options(self) -> dict[str, Any]:
        """What is asked of a stream besides its chunks."""
        return {"include_usage": True}

    async def _send(self, call: ProviderCall, *, stream: bool) -> aiohttp.ClientResponse:
        """Sends the call; returns a response with status 2xx, nothing of its body read."""
        payload = self._payload(call, stream=stream)
        headers = {**call.headers, **self._headers, "x-request-id": call.request_id}
        if stream:
            headers["accept-encoding"] = "identity"
        response = await self._post(payload, headers)
        if response.status >= _REFUSED:
            raw = await self._error_body(response)
            raise refused(response.status, self._redact(raw), relayed(response.headers))
        if response.status >= _REDIRECT:
            response.close()
            raise failed(GARBLED)
        return response

    def _payload(self, call: ProviderCall, *, stream: bool) -> bytes:
        body = {**self.fields(call), "model": call.model, "stream": stream}
        if stream:
            body["stream_options"] = self.stream_options()
        return orjson.dumps(body)

    async def _post(self, payload: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        first = _Attempt(asyncio.get_running_loop().time())
        try:
            return await self._post_once(payload, headers, first)
        except FOREIGN as error:
            if not first.met_stale(error, asyncio.get_running_loop().time()):
                raise from_foreign(error) from None
        try:
            return await self._post_once(payload, headers, None)
        except FOREIGN as error:
            raise from_foreign(error) from None

    async def _post_once(
        self, payload: bytes, headers: dict[str, str], attempt: "_Attempt | None"
    ) -> aiohttp.ClientResponse:
        return await self._open_session().post(
            self._url,
            data=_data(payload),
            headers=headers,
            allow_redirects=False,
            trace_request_ctx=attempt,
            ssl=True if self._tls is None else self._tls.current(),  # in its pool, a connection is kept by it
        )

    async def _whole(self, response: aiohttp.ClientResponse) -> ChatResponse:
        raw = await _read(response, _ANSWER_BYTES)
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise failed(GARBLED) from None
        if isinstance(body, dict) and body.get("error"):
            raise refused(response.status, self._redact(raw), relayed(response.headers))
        try:
            return parse_completion(body)
        except ProtocolError:
            raise failed(GARBLED) from None

    async def _error_body(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await _read(response, _ERROR_BYTES)
        except UpstreamError:
            return b""

    def _redact(self, raw: bytes) -> bytes:
        for secret in self._hidden:
            raw = raw.replace(secret, b"[redacted]")
        return raw

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise from_foreign(ConnectionError())
        if self._session is None:
            self._session = _new_session(self._settings, self._socket_path)
        return self._session


@dataclass(slots=True)
class _Attempt:
    """What is known of one attempt to send."""

    started_s: float
    reused: bool = False

    def met_stale(self, error: BaseException, now_s: float) -> bool:
        """Whether a kept connection was found closed: seen at once, and before any byte of an answer."""
        known = isinstance(error, _STALE) or (isinstance(error, OSError) and error.errno in _STALE_ERRNOS)
        return self.reused and known and now_s - self.started_s < _STALE_WITHIN_S


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.reused = True


def _new_session(settings: ProviderSettings, socket_path: str | None) -> aiohttp.ClientSession:
    connector: aiohttp.BaseConnector
    if socket_path is not None:
        connector = aiohttp.UnixConnector(
            socket_path, limit=settings.max_connections, keepalive_timeout=_KEEP_ALIVE_S
        )
    else:
        connector = aiohttp.TCPConnector(
            limit=settings.max_connections, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=60
        )
    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_note_reuse)
    connect_s = settings.connect_timeout_s
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=connect_s, sock_connect=connect_s, sock_read=settings.read_timeout_s
        ),
        trace_configs=[trace],
        trust_env=False,
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
    )


def _address(name: str, base_url: str) -> tuple[str | None, URL]:
    """The socket path, if any, and the base of request URLs."""
    if base_url.startswith("unix:"):
        return "/" + base_url.removeprefix("unix:").lstrip("/"), URL("http://engine/v1")
    try:
        base = URL(base_url)
    except ValueError:
        base = URL()
    if not base.host:
        raise SettingsError(f"provider {name!r}: base_url names no host")
    return None, base.with_path(base.path.rstrip("/"), keep_query=True)


def _fixed_headers(settings: ProviderSettings) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "lamina"}
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    return headers | {name.lower(): value for name, value in settings.headers.items()}


def _hidden(settings: ProviderSettings, socket_path: str | None, base: URL) -> tuple[bytes, ...]:
    """What no client may read in an upstream's error: keys and addresses."""
    address = socket_path or (base.authority if base.explicit_port or "." in (base.host or "") else str(base))
    secrets = [address, *(value for value in settings.headers.values() if len(value) >= _SECRET_CHARS)]
    if settings.api_key is not None:
        secrets.append(settings.api_key.get_secret_value())
    return tuple(secret.encode() for secret in secrets if secret)


def _data(payload: bytes) -> bytes | io.BytesIO:
    """A large body as a file, which the client sends in parts; in one part it would hold up the loop."""
    return payload if len(payload) < _LARGE_BODY_BYTES else io.BytesIO(payload)


async def _read(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The body, of at most this many bytes; the connection is closed when it does not come to its end."""
    parts: list[bytes] = []
    left_bytes = limit_bytes
    try:
        while left_bytes >= 0 and (part := await response.content.readany()):
            parts.append(part)
            left_bytes -= len(part)
    except FOREIGN as error:
        response.close()
        raise from_foreign(error) from None
    except BaseException:
        response.close()
        raise
    if left_bytes < 0:
        response.close()
        raise failed(GARBLED)
    return b"".join(parts)
