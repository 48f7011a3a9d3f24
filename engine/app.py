"""The engine's HTTP surface: a raw ASGI application."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engine.asgi import Receive, Reply, Scope, Send, answer, read_json, send_body, send_error, stream, watch
from engine.errors import RequestError
from engine.metrics import CONTENT_TYPE, Metrics
from engine.protocol import reply_parts, token_calls
from engine.protocol.chat_reply import ChatReply, ReplyHead, new_choices
from engine.protocol.chat_request import ChatCall, read_chat_call
from engine.protocol.completion_reply import CompletionChoice, CompletionReply
from engine.protocol.completion_request import CompletionCall, read_completion_call
from engine.protocol.tool_parser import ToolParser
from engine.served_model import ServedModel
from engine.worker import Generation, Job, Worker

_MODELS = "/v1/models"
_MOST_TREES, _MOST_RUNS = 50, 60
"""Of an outline of the prefix cache."""


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
                self.metrics.refused(error)
                await send_error(send, error)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.worker.start(asyncio.get_running_loop())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.worker.stop, 5.0)
        await send({"type": "lifespan.shutdown.complete"})

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        posted = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/cache/purge": self._purge,
        }
        if path in posted:
            _allow(method, "POST")
            arrived, body = await read_json(receive)
            if arrived:
                await posted[path](body, receive, send)
        elif path == _MODELS or path.startswith(_MODELS + "/"):
            _allow(method, "GET")
            await send_body(send, 200, orjson.dumps(self._models(path)))
        elif path == "/health":
            _allow(method, "GET")
            healthy = self.worker.alive
            answer = {"status": "ok" if healthy else "stopped", "model": self.model.name}
            await send_body(send, 200 if healthy else 503, orjson.dumps(answer))
        elif path == "/cache/prefixes":
            _allow(method, "GET")
            told = await self.worker.outline(_MOST_TREES, _MOST_RUNS)
            await send_body(send, 200, orjson.dumps(told))
        elif path == "/metrics":
            _allow(method, "GET")
            await send_body(send, 200, self.metrics.exposition(), CONTENT_TYPE)
        else:
            raise RequestError(404, f"Unknown request URL: {method} {path}.", code="unknown_url")

    def _models(self, path: str) -> dict[str, Any]:
        entry = reply_parts.model_entry(self.model.name, self.model.created)
        if path.rstrip("/") == _MODELS:
            return reply_parts.model_list([entry])
        self._require_model(path.removeprefix(_MODELS + "/"))
        return entry

    def _require_model(self, name: str) -> None:
        if name != self.model.name:
            message = f"The model '{name}' does not exist or you do not have access to it."
            raise RequestError(404, message, code="model_not_found", param="model")

    async def _chat(self, body: Any, receive: Receive, send: Send) -> None:
        call = read_chat_call(body, self.model.sampling)
        self._require_model(call.model)
        job = await asyncio.to_thread(self.model.job, call)
        generation = self.worker.submit(job)
        spelling = self.model.spelling if call.tools.offered else None
        parser = None if spelling is None else (lambda: ToolParser(spelling, call.tools.parallel))
        head = self._head("chatcmpl", call, [job], call.params.top_logprobs is not None)
        reply = ChatReply(head, self.model.tokenizer, new_choices(call.n, parser))
        await self._tell(generation, reply, call.stream, receive, send)

    async def _complete(self, body: Any, receive: Receive, send: Send) -> None:
        call = read_completion_call(body, self.model.sampling)
        self._require_model(call.model)
        jobs = await asyncio.to_thread(self.model.completion_jobs, call)
        generation = self.worker.submit(*jobs)
        head = self._head("cmpl", call, jobs, call.logprobs is not None)
        choices = tuple(CompletionChoice() for _ in generation.seq_ids)
        reply = CompletionReply(head, self.model.tokenizer, choices, call.n, call.shown)
        await self._tell(generation, reply, call.stream, receive, send)

    async def _tokenize(self, body: Any, _: Receive, send: Send) -> None:
        call = token_calls.read_tokenize_call(body)
        ids = await asyncio.to_thread(self.model.token_ids, call)
        label = self.model.tokenizer.label
        spellings = [label(one).decode("utf-8", errors="replace") for one in ids] if call.spell else None
        await send_body(send, 200, token_calls.tokenized(ids, self.model.max_context, spellings))

    async def _detokenize(self, body: Any, _: Receive, send: Send) -> None:
        ids = token_calls.read_detokenize_call(body)
        text = await asyncio.to_thread(self.model.text, ids)
        await send_body(send, 200, token_calls.detokenized(text))

    async def _purge(self, body: Any, _: Receive, send: Send) -> None:
        forgotten = await self.worker.purge(token_calls.read_purge_call(body))
        await send_body(send, 200, orjson.dumps({"blocks": forgotten}))

    async def _tell(
        self, generation: Generation, reply: Reply, streams: bool, receive: Receive, send: Send
    ) -> None:
        watching = asyncio.create_task(watch(receive, generation))
        try:
            await (stream if streams else answer)(generation, reply, send)
        finally:
            watching.cancel()
            self.worker.abort(generation)

    def _head(self, kind: str, call: ChatCall | CompletionCall, jobs: Sequence[Job], logprobs: bool) -> ReplyHead:
        return ReplyHead(
            reply_id=f"{kind}-{uuid.uuid4().hex}",
            created=int(self.clock()),
            model=self.model.name,
            prompt_tokens=sum(len(job.prompt_ids) for job in jobs),
            logprobs=logprobs,
            include_usage=call.include_usage,
            early_usage=isinstance(call, ChatCall) and call.early_usage,
            breakpoints=jobs[0].cache.breakpoints,
        )


def _allow(method: str, allowed: str) -> None:
    if method != allowed:
        raise RequestError(405, f"Method {method} is not allowed here; use {allowed}.", code="method_not_allowed")
