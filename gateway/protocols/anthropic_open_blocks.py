"""The content blocks of a stream while they come; pure.

One block is open at a time, as clients of this protocol expect. A model that streams several tool calls at once is
put in order: what belongs to another block waits until the open call's arguments are a whole object.
"""

from collections.abc import Iterator

import orjson

from gateway.protocols.anthropic_answer import text_block, tool_use
from gateway.protocols.shape import text_or_empty
from policies.types import Json

Key = tuple[str, int]
"""Type and number of a block; what comes under one key belongs together."""

_CALL = "tool_use"


class OpenBlocks:
    """Which block is open, and what waits for it to close.

    Attributes:
        called: whether any block was a tool call.
    """

    __slots__ = ("_arguments", "_closed", "_count", "_open", "_sealed", "_waiting", "called")

    def __init__(self) -> None:
        self.called = False
        self._count = 0
        self._open: Key | None = None
        self._sealed = False
        self._arguments: list[str] = []
        self._closed: set[Key] = set()
        self._waiting: dict[Key, list[Json]] = {}

    def add(self, key: Key, part: Json) -> Iterator[Json]:
        """Takes a part; gives the events that can go out now.

        What still comes for a call after its whole arguments could only break them, and is dropped.
        """
        if key in self._closed:
            return
        if key != self._open and self._busy():
            self._waiting.setdefault(key, []).append(part)
            return
        yield from self._put(key, part)
        while self._waiting and not self._busy():
            yield from self._put_first_waiting()

    def close(self) -> Iterator[Json]:
        """The events of all that waited, and of the last block's end."""
        while self._waiting:
            yield from self._put_first_waiting()
        yield from self._stop()

    def _put_first_waiting(self) -> Iterator[Json]:
        key = next(iter(self._waiting))
        for part in self._waiting.pop(key):
            yield from self._put(key, part)

    def _busy(self) -> bool:
        """Whether a call is open whose arguments are not whole."""
        if self._open is None or self._open[0] != _CALL:
            return False
        if not self._arguments or not self._arguments[-1].rstrip().endswith("}"):
            return True
        try:
            return not isinstance(orjson.loads("".join(self._arguments)), dict)
        except orjson.JSONDecodeError:
            return True

    def _put(self, key: Key, part: Json) -> Iterator[Json]:
        if key != self._open or self._sealed:
            yield from self._stop()
            self._open = key
            self.called = self.called or key[0] == _CALL
            yield {"type": "content_block_start", "index": self._count, "content_block": _opening(key, part)}
        for delta in _deltas(key, part):
            yield {"type": "content_block_delta", "index": self._count, "delta": delta}
        if key[0] == _CALL and (text := _arguments(part)):
            self._arguments.append(text)
        self._sealed = key[0] == "redacted_thinking" or bool(part.get("signature"))

    def _stop(self) -> Iterator[Json]:
        if self._open is None:
            return
        if self._open[0] == _CALL:
            self._closed.add(self._open)
        self._open, self._sealed = None, False
        self._arguments.clear()
        yield {"type": "content_block_stop", "index": self._count}
        self._count += 1


def _opening(key: Key, part: Json) -> Json:
    if key[0] == _CALL:
        return tool_use(part, {})
    if key[0] == "text":
        return text_block("")
    if key[0] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": text_or_empty(part.get("data"))}
    return {"type": "thinking", "thinking": "", "signature": ""}


def _deltas(key: Key, part: Json) -> list[Json]:
    if key[0] == _CALL:
        text = _arguments(part)
        return [{"type": "input_json_delta", "partial_json": text}] if text else []
    if key[0] == "text":
        return [{"type": "text_delta", "text": part["text"]}]
    return thinking_deltas(part)


def _arguments(part: Json) -> str:
    return text_or_empty(part["function"].get("arguments"))


def thinking_deltas(part: Json) -> list[Json]:
    """The deltas of a thinking block or a piece of one; a signature comes whole."""
    deltas: list[Json] = []
    if thought := text_or_empty(part.get("thinking")):
        deltas.append({"type": "thinking_delta", "thinking": thought})
    if signature := text_or_empty(part.get("signature")):
        deltas.append({"type": "signature_delta", "signature": signature})
    return deltas
