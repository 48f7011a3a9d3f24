"""Token events to `chat.completion` objects and `chat.completion.chunk` events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.errors import RequestError
from engine.events import FinishReason, TokenEvent
from engine.sampler import Logprob, Sampled
from engine.tokenizer import Tokenizer

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class ChoiceState:
    """What has been said in one choice."""

    index: int
    pieces: list[str] = field(default_factory=list)
    tokens: list[Json] = field(default_factory=list)
    finish: FinishReason | None = None
    num_output: int = 0


@dataclass(slots=True)
class ChatReply:
    """One answer being put together, in either form.

    Attributes:
        reply_id, created, model: equal on every chunk.
        prompt_tokens: counted once, whatever `n` is.
        logprobs: whether the client asked for them.
        include_usage: whether a stream ends with a usage chunk, and its other chunks carry `usage: null`.
    """

    reply_id: str
    created: int
    model: str
    prompt_tokens: int
    logprobs: bool
    include_usage: bool
    tokenizer: Tokenizer
    choices: tuple[ChoiceState, ...]

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        return all(choice.finish is not None for choice in self.choices)

    def take(self, event: TokenEvent) -> ChoiceState:
        """Add an event to its choice."""
        choice = self.choices[event.sample_index]
        choice.pieces.append(event.text)
        choice.num_output = max(choice.num_output, event.num_output)
        choice.finish = event.finish
        if self.logprobs:
            choice.tokens += [self._logprob_entry(token) for token in event.tokens]
        return choice

    def opening(self) -> bytes:
        """Render the chunks that open every choice, in ascending order; the role appears here alone."""
        delta = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._chunk(choice.index, delta) for choice in self.choices)

    def chunks(self, event: TokenEvent) -> bytes:
        """Take an event and render what it adds to the stream; may be empty."""
        choice = self.take(event)
        rendered = b""
        if event.text or (choice.finish is not None and choice.tokens):
            rendered = self._chunk(choice.index, {"content": event.text}, logprobs=self._logprobs(choice))
            choice.tokens.clear()
        if choice.finish is not None:
            rendered += self._chunk(choice.index, {}, finish=choice.finish.value)
        return rendered

    def closing(self) -> bytes:
        """Render the end of the stream."""
        if not self.include_usage:
            return DONE
        return _event({**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage()}) + DONE

    def whole(self) -> bytes:
        """Render the answer as one object."""
        choices = [
            {
                "index": choice.index,
                "message": {"role": "assistant", "content": "".join(choice.pieces), "refusal": None},
                "logprobs": self._logprobs(choice),
                "finish_reason": None if choice.finish is None else choice.finish.value,
            }
            for choice in self.choices
        ]
        return orjson.dumps({**self._head("chat.completion"), "choices": choices, "usage": self.usage()})

    def usage(self) -> Json:
        """Count tokens; `completion_tokens` includes end tokens, as they were generated."""
        completion = sum(choice.num_output for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def _head(self, kind: str) -> Json:
        return {"id": self.reply_id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, index: int, delta: Json, finish: str | None = None, logprobs: Json | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        chunk: Json = {**self._head("chat.completion.chunk"), "choices": [choice]}
        if self.include_usage:
            chunk["usage"] = None
        return _event(chunk)

    def _logprobs(self, choice: ChoiceState) -> Json | None:
        return {"content": list(choice.tokens), "refusal": None} if self.logprobs else None

    def _logprob_entry(self, token: Sampled) -> Json:
        chosen = token.chosen or Logprob(token.token_id, 0.0)
        return {**self._named(chosen), "top_logprobs": [self._named(entry) for entry in token.top]}

    def _named(self, entry: Logprob) -> Json:
        label = self.tokenizer.label(entry.token_id)
        text = label.decode("utf-8", errors="replace")
        return {"token": text, "logprob": entry.logprob, "bytes": list(label)}


def new_choices(count: int) -> tuple[ChoiceState, ...]:
    """Build `count` empty choices."""
    return tuple(ChoiceState(index) for index in range(count))


def error_body(error: RequestError) -> bytes:
    """Render an error in OpenAI's shape."""
    return orjson.dumps(_error(error))


def error_event(error: RequestError) -> bytes:
    """Render an error inside a stream."""
    return _event(_error(error))


def model_entry(name: str, created: int) -> Json:
    """Describe the served model."""
    return {"id": name, "object": "model", "created": created, "owned_by": "lamina"}


def model_list(entries: Iterable[Json]) -> Json:
    """Wrap models in a list."""
    return {"object": "list", "data": list(entries)}


def _error(error: RequestError) -> Json:
    detail = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
    return {"error": detail}


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
