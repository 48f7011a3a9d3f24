"""OpenAI chat wire to the neutral answer and back, pure: whole answers, and chunks merged and cut again.

Both directions meet in one normal form (see shape), so a stream and a whole answer of the same words are the same
entry. How deltas merge: text fields are appended, list fields extended, arguments of calls appended, names and ids
set once; of any other field, known or not, the last value wins.
"""

from typing import Any

from gateway.protocols.render import render_chunks, render_completion
from gateway.protocols.shape import (
    CALL_TEXTS,
    ONCE,
    ProtocolError,
    append_to,
    as_index,
    as_list,
    as_object,
    check_indices,
    inner_object,
    joined,
    merge_into,
    normal_message,
    set_last,
    text_or_empty,
    whole_or_zero,
)
from policies.types import ChatResponse, Choice, Json

__all__ = ["Assembler", "ProtocolError", "parse_completion", "render_chunks", "render_completion"]

_TEXTS = frozenset({"content", "refusal", "reasoning", "reasoning_content", "thinking"})
_LISTS = frozenset({"annotations", "reasoning_details", "thinking_blocks", "images", "token_ids"})
_AUDIO_TEXTS = frozenset({"data", "transcript"})
_TOP = frozenset({"id", "object", "created", "model", "choices", "usage", "prompt_usage", "obfuscation"})
_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})


class Assembler:
    """Merges the chunks of one stream, in order, into the answer a whole reply would have been."""

    __slots__ = ("_choices", "_created", "_extra", "_id", "_model", "_usage")

    def __init__(self) -> None:
        self._id = ""
        self._created = 0
        self._model = ""
        self._usage: Json | None = None
        self._extra: Json = {}
        self._choices: dict[int, _OpenChoice] = {}

    def add(self, chunk: Json) -> None:
        """Takes the next chunk; it is read, not kept or changed.

        Raises:
            ProtocolError: it is no chunk.
        """
        choices = as_list(as_object(chunk, "chunk").get("choices"), "choices")
        if chunk.get("error"):
            raise ProtocolError("the chunk is an error")
        self._id = self._id or text_or_empty(chunk.get("id"))
        self._created = self._created or whole_or_zero(chunk.get("created"))
        self._model = self._model or text_or_empty(chunk.get("model"))
        usage = chunk.get("usage")
        if usage is not None:
            self._usage = as_object(usage, "usage")
        as_object(chunk.get("prompt_usage") or {}, "prompt_usage")
        for name, value in chunk.items():
            if name not in _TOP:
                set_last(self._extra, name, value)
        for choice in choices:
            index = as_index(as_object(choice, "choice").get("index"), "choice")
            known = self._choices.get(index)
            if known is None:
                known = self._choices[index] = _OpenChoice()
            known.add(choice)

    def finish(self) -> ChatResponse:
        """The answer so far; whether it is complete shows in each choice's finish_reason.

        Raises:
            ProtocolError: no choice came, or the indices have a gap.
        """
        choices = tuple(self._choices[index].finish(index) for index in sorted(self._choices))
        check_indices(choices)
        return ChatResponse(self._id, self._created, self._model, choices, self._usage, dict(self._extra))


class _OpenChoice:
    """One choice while its deltas come in."""

    __slots__ = ("_calls", "_extra", "_finish_reason", "_logprobs", "_message", "_pieces", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, list[Any]] = {}
        self._message: Json = {}
        self._calls: dict[int, Json] = {}
        self._finish_reason: str | None = None
        self._logprobs: Json | None = None
        self._pieces: list[int] = []
        self._extra: Json = {}

    def add(self, choice: Json) -> None:
        reason = choice.get("finish_reason")
        if reason is not None:
            self._finish_reason = text_or_empty(reason)
        logprobs = choice.get("logprobs")
        if logprobs is not None:
            self._logprobs = {} if self._logprobs is None else self._logprobs
            for name, value in as_object(logprobs, "logprobs").items():
                (append_to if isinstance(value, list) else set_last)(self._logprobs, name, value)
        for name, value in choice.items():
            if name not in _CHOICE:
                (append_to if name in _LISTS else set_last)(self._extra, name, value)
        delta = choice.get("delta")
        if delta is not None:
            for name, value in as_object(delta, "delta").items():
                if name in _TEXTS:
                    self._add_text(name, value)
                else:
                    self._add_field(name, value)

    def _add_text(self, name: str, value: Any) -> None:
        parts = self._texts.setdefault(name, [])
        if value is None:
            return
        if not isinstance(value, str | list):
            raise ProtocolError(f"{name} is neither text nor a list of parts")
        parts.append(value)
        if name == "content" and value and isinstance(value, str):
            self._pieces.append(len(value))

    def _add_field(self, name: str, value: Any) -> None:
        if value is None:
            self._message.setdefault(name, None)
        elif name == "role":
            self._message["role"] = self._message.get("role") or value
        elif name in _LISTS:
            append_to(self._message, name, value)
        elif name == "tool_calls":
            for call in as_list(value, name):
                self._add_call(as_object(call, "tool call"))
        elif name == "function_call":
            merge_into(inner_object(self._message, name), as_object(value, name), {"arguments"})
        elif name == "audio":
            merge_into(inner_object(self._message, name), as_object(value, name), _AUDIO_TEXTS)
        else:
            self._message[name] = value

    def _add_call(self, delta: Json) -> None:
        known = self._calls.setdefault(self._call_index(delta), {})
        for name, value in delta.items():
            if name in CALL_TEXTS and value is not None:
                merge_into(inner_object(known, name), as_object(value, name), {CALL_TEXTS[name]})
            elif name in ONCE:
                known[name] = known.get(name) or value
            elif name != "index":
                set_last(known, name, value)

    def _call_index(self, delta: Json) -> int:
        index = delta.get("index")
        if index is not None:
            return as_index(index, "tool call")
        if delta.get("id"):
            same = (at for at, call in self._calls.items() if call.get("id") == delta["id"])
            return next(same, max(self._calls, default=-1) + 1)
        if len(self._calls) > 1:
            raise ProtocolError("a tool call delta names neither index nor id, and several calls are open")
        return next(iter(self._calls), 0)

    def finish(self, index: int) -> Choice:
        message = {name: joined(name, parts) for name, parts in self._texts.items()} | self._message
        if self._calls:
            message["tool_calls"] = [self._calls[at] for at in sorted(self._calls)]
        pieces = tuple(self._pieces) if len(self._pieces) > 1 else ()
        return Choice(
            index, normal_message(message), self._finish_reason, self._logprobs, pieces, dict(self._extra)
        )


def parse_completion(body: Json) -> ChatResponse:
    """A whole `chat.completion` object as the neutral answer; parts of `body` are shared.

    Raises:
        ProtocolError: it is an error object, or has not the shape.
    """
    if as_object(body, "answer").get("error"):
        raise ProtocolError("the answer is an error")
    choices = []
    for raw in as_list(body.get("choices"), "choices"):
        choice = as_object(raw, "choice")
        logprobs, reason = choice.get("logprobs"), choice.get("finish_reason")
        choices.append(
            Choice(
                index=as_index(choice.get("index"), "choice"),
                message=normal_message(as_object(choice.get("message"), "message")),
                finish_reason=None if reason is None else text_or_empty(reason),
                logprobs=None if logprobs is None else as_object(logprobs, "logprobs"),
                extra={name: value for name, value in choice.items() if name not in _CHOICE},
            )
        )
    choices.sort(key=lambda choice: choice.index)
    check_indices(choices)
    usage = body.get("usage")
    return ChatResponse(
        id=text_or_empty(body.get("id")),
        created=whole_or_zero(body.get("created")),
        model=text_or_empty(body.get("model")),
        choices=tuple(choices),
        usage=None if usage is None else as_object(usage, "usage"),
        extra={name: value for name, value in body.items() if name not in _TOP},
    )
