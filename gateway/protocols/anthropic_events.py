"""Neutral chunks as the events of an Anthropic stream; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gateway.protocols.anthropic_answer import (
    blocks_of,
    message_of,
    reasoning_of,
    said_of,
    stop_of,
    stop_of_choice,
    usage_of,
)
from gateway.protocols.anthropic_errors import error_object
from gateway.protocols.anthropic_open_blocks import Key, OpenBlocks, thinking_deltas
from gateway.protocols.render import cut
from policies.types import ChatResponse, Json

_DELTA_USAGE = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens_details",
        "server_tool_use",
    }
)


def event_bytes(value: Json) -> bytes:
    """One event, named as its type: clients skip those without a name."""
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), orjson.dumps(value))


class MessageEvents:
    """One answer as events. Meets Events.

    `message_delta` waits for the end of the stream, as upstreams tell the usage last, and tells the whole usage
    always. `message_start` tells the input tokens of a replay and of the engine's answers, whose first chunk has a
    `prompt_usage`; with other upstreams they are not known by then.
    """

    __slots__ = (
        "_answer_id",
        "_blocks",
        "_call_ids",
        "_matched",
        "_model",
        "_reason",
        "_refuses",
        "_started",
        "_stop",
        "_usage",
    )

    def __init__(self, answer_id: str, model: str) -> None:
        self._answer_id = answer_id
        self._model = model
        self._blocks = OpenBlocks()
        self._call_ids: list[Any] = []
        self._started = False
        self._usage: Json | None = None
        self._reason: str | None = None
        self._matched: Any = None
        self._refuses = False
        self._stop: Json | None = None

    def chunks(self, batch: Sequence[Json]) -> bytes:
        """See Events."""
        return b"".join([event_bytes(event) for chunk in batch for event in self._take(chunk)])

    def replay(self, response: ChatResponse) -> bytes:
        """See Events."""
        choice = response.choices[0]
        self._model = response.model or self._model
        self._usage, self._stop = response.usage, stop_of_choice(choice)
        events = [*self._start()]
        for index, block in enumerate(blocks_of(choice)):
            events += block_events(index, block, choice.pieces)
        return b"".join(map(event_bytes, events))

    def failed(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """See Events."""
        return event_bytes(error_object(status, body, request_id))

    def end(self) -> bytes:
        """See Events."""
        events = [*self._start(), *self._blocks.close()]
        called = self._blocks.called
        stop = self._stop or stop_of(self._reason, self._matched, calls=called, refuses=self._refuses)
        usage = {name: value for name, value in usage_of(self._usage).items() if name in _DELTA_USAGE}
        delta = {**stop, "stop_details": None, "container": None}
        events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
        return b"".join(map(event_bytes, events))

    def _start(self) -> Iterator[Json]:
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": message_of(self._answer_id, self._model, self._usage)}

    def _take(self, chunk: Json) -> Iterator[Json]:
        self._usage = chunk.get("usage") or chunk.get("prompt_usage") or self._usage
        self._model = chunk.get("model") or self._model
        yield from self._start()
        for choice in chunk.get("choices") or ():
            if choice.get("index"):
                continue
            self._reason = choice.get("finish_reason") or self._reason
            self._matched = self._matched if choice.get("stop_reason") is None else choice["stop_reason"]
            delta = choice.get("delta") or {}
            self._refuses = self._refuses or bool(delta.get("refusal"))
            for key, part in self._parts(delta):
                yield from self._blocks.add(key, part)

    def _parts(self, delta: Json) -> Iterator[tuple[Key, Json]]:
        """What a delta adds, block by block."""
        listed = delta.get("thinking_blocks")
        if isinstance(listed, list) and listed:
            yield from (((str(block.get("type")), 0), block) for block in listed if isinstance(block, dict))
        elif thought := reasoning_of(delta):
            yield ("thinking", 0), {"thinking": thought}
        if said := said_of(delta):
            yield ("text", 0), {"text": said}
        for call in delta.get("tool_calls") or ():
            number = self._call_number(call)
            if isinstance(call.get("function"), dict):
                yield ("tool_use", number), call

    def _call_number(self, call: Json) -> int:
        """The call's index; upstreams that send none begin a call with its id."""
        index, call_id = call.get("index"), call.get("id")
        if isinstance(index, int):
            return index
        if call_id and call_id not in self._call_ids:
            self._call_ids.append(call_id)
        return self._call_ids.index(call_id) if call_id else max(0, len(self._call_ids) - 1)


def block_events(index: int, block: Json, pieces: tuple[int, ...]) -> list[Json]:
    """The events of a whole block; text is cut in these pieces when they fit."""
    kind = block["type"]
    opening, deltas = block, list[Json]()
    if kind == "text":
        opening = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in cut(block["text"], pieces)]
    elif kind == "thinking":
        opening = {**block, "thinking": "", "signature": ""}
        deltas = thinking_deltas(block)
    elif kind == "tool_use":
        opening = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()}]
    return [
        {"type": "content_block_start", "index": index, "content_block": opening},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
