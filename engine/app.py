"""The engine's HTTP surface: a raw ASGI application."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

from engine.errors import RequestError
from engine.events import TokenEvent
from engine.metrics import CONTENT_TYPE, Metrics
from engine.protocol import chat_reply
from engine.protocol.chat_reply import ChatReply
from engine.protocol.chat_request import ChatCall, read_chat_call
from engine.served_model import ServedModel
from engine.worker import ClientGone, Generation, Worker

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 8 << 20
_JSON = "application/json"
_MODELS = "/v1/models"
_EVENT_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


@dataclass(frozen=True, slots=True)
class App:
    """Routes requests to the worker; the lifespan starts and stops its thread.

    A client that hangs up, streaming or not, aborts its sequences.

    Attributes:
        clock: seconds since the epoch.
    """

    model: ServedModel
    worker: Worker
    metrics: Metrics
    clock: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                await self._route(scope, receive, send)
            except RequestError as error:
                self.metrics.refused(error.status)
                await _send_error(send, error)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.worker.start(asyncio.get_running_loop())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.worker.stop, 5.0)
        await send({"type": "lifespan.shutdown.complete"})

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/v1/chat/completions":
            _allow(method, "POST")
            await self._chat(receive, send)
        elif path == _MODELS or path.startswith(_MODELS + "/"):
            _allow(method, "GET")
            await _send_body(send, 200, orjson.dumps(self._models(path)))
        elif path == "/health":
            _allow(method, "GET")
            healthy = self.worker.alive
            body = {"status": "ok" if healthy else "stopped", "model": self.model.name}
            await _send_body(send, 200 if healthy else 503, orjson.dumps(body))
        elif path == "/metrics":
            _allow(method, "GET")
            await _send_body(send, 200, self.metrics.exposition(), CONTENT_TYPE)
        else:
            raise RequestError(404, f"Unknown request URL: {method} {path}.", code="unknown_url")

    def _models(self, path: str) -> dict[str, Any]:
        entry = chat_reply.model_entry(self.model.name, self.model.created)
        if path.rstrip("/") == _MODELS:
            return chat_reply.model_list([entry])
        self._require_model(path.removeprefix(_MODELS + "/"))
        return entry

    def _require_model(self, name: str) -> None:
        if name != self.model.name:
            message = f"The model '{name}' does not exist or you do not have access to it."
            raise RequestError(404, message, code="model_not_found", param="model")

    async def _chat(self, receive: Receive, send: Send) -> None:
        body = await _read_body(receive)
        if body is None:
            return
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(400, f"The request body is not valid JSON: {error}.") from error
        call = read_chat_call(parsed, self.model.sampling)
        self._require_model(call.model)
        job = await asyncio.to_thread(self.model.job, call)
        generation = self.worker.submit(job)
        watch = asyncio.create_task(_watch(receive, generation))
        reply = self._reply(call, len(job.prompt_ids))
        try:
            await (_stream if call.stream else _answer)(generation, reply, send)
        finally:
            watch.cancel()
            self.worker.abort(generation)

    def _reply(self, call: ChatCall, prompt_tokens: int) -> ChatReply:
        return ChatReply(
            reply_id=f"chatcmpl-{uuid.uuid4().hex}",
            created=int(self.clock()),
            model=self.model.name,
            prompt_tokens=prompt_tokens,
            logprobs=call.params.top_logprobs is not None,
            include_usage=call.include_usage,
            tokenizer=self.model.tokenizer,
            choices=chat_reply.new_choices(call.n),
        )


async def _answer(generation: Generation, reply: ChatReply, send: Send) -> None:
    while not reply.finished:
        event = await generation.events.get()
        if isinstance(event, ClientGone):
            return
        if event.error is not None:
            raise event.error
        reply.take(event)
    await _send_body(send, 200, reply.whole())


async def _stream(generation: Generation, reply: ChatReply, send: Send) -> None:
    event = await generation.events.get()
    if isinstance(event, ClientGone):
        return
    if event.error is not None:
        raise event.error
    await send({"type": "http.response.start", "status": 200, "headers": _EVENT_STREAM})
    await _send_part(send, reply.opening())
    while isinstance(event, TokenEvent):
        if event.error is not None:
            await _send_part(send, chat_reply.error_event(event.error), last=True)
            return
        if rendered := reply.chunks(event):
            await _send_part(send, rendered)
        if reply.finished:
            await _send_part(send, reply.closing(), last=True)
            return
        event = await generation.events.get()


async def _watch(receive: Receive, generation: Generation) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    generation.events.put_nowait(ClientGone())


async def _read_body(receive: Receive) -> bytes | None:
    """Read the request body; None when the client left before its end."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestError(413, f"The request body is larger than {MAX_BODY_BYTES} bytes.")
        if not message.get("more_body", False):
            return b"".join(parts)


def _allow(method: str, allowed: str) -> None:
    if method != allowed:
        raise RequestError(405, f"Method {method} is not allowed here; use {allowed}.", code="method_not_allowed")


async def _send_error(send: Send, error: RequestError) -> None:
    extra = [] if error.retry_after_s is None else [(b"retry-after", b"%d" % error.retry_after_s)]
    await _send_body(send, error.status, chat_reply.error_body(error), extra=extra)


async def _send_body(
    send: Send, status: int, body: bytes, kind: str = _JSON, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body)), *(extra or ())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _send_part(send, body, last=True)


async def _send_part(send: Send, body: bytes, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})
