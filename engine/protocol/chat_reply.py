"""Token events to `chat.completion` objects and `chat.completion.chunk` events."""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from engine.events import FinishReason, TokenEvent
from engine.kv.wishes import Breakpoint
from engine.prompt_use import PromptUse
from engine.protocol.prompt_usage import miss_header, prompt_details
from engine.protocol.reply_parts import DONE, Json, event, logprob_entry, usage
from engine.protocol.tool_parser import CallPart, Parsed, ToolParser
from engine.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What is equal on every chunk of a reply, and how it was asked for.

    Attributes:
        prompt_tokens: counted once, whatever `n` is.
        logprobs: whether the client asked for them.
        include_usage: whether a stream ends with a usage chunk, and its other chunks carry `usage: null`.
        early_usage: whether the first chunk of a stream has a `prompt_usage`: that of the prompt, no answer yet.
        breakpoints: up to where the prompt was asked to be kept, ascending.
    """

    reply_id: str
    created: int
    model: str
    prompt_tokens: int
    logprobs: bool
    include_usage: bool
    early_usage: bool = False
    breakpoints: tuple[Breakpoint, ...] = ()


@dataclass(slots=True)
class ChoiceState:
    """What has been said in one choice.

    Attributes:
        parser: finds calls in the text; None when there can be none.
        calls: id, name and arguments of each.
    """

    index: int
    parser: ToolParser | None = None
    pieces: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    tokens: list[Json] = field(default_factory=list)
    finish: FinishReason | None = None
    num_output: int = 0

    @property
    def finish_reason(self) -> str | None:
        """The end in the words of the protocol."""
        if self.finish is FinishReason.STOP and self.calls:
            return "tool_calls"
        return None if self.finish is None else self.finish.value

    def parse(self, told: TokenEvent) -> Parsed:
        """Split what an event adds into text and calls."""
        if self.parser is None:
            return Parsed(told.text)
        parsed = self.parser.push(told.text)
        if told.finish is None:
            return parsed
        rest = self.parser.finish()
        return Parsed(parsed.content + rest.content, parsed.calls + rest.calls)


@dataclass(slots=True)
class ChatReply:
    """One answer being put together, in either form.

    Attributes:
        prompt: what became of the prompt in the cache; known from the first event on.
    """

    head: ReplyHead
    tokenizer: Tokenizer
    choices: tuple[ChoiceState, ...]
    prompt: PromptUse = field(default_factory=PromptUse)

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        return all(choice.finish is not None for choice in self.choices)

    def take(self, index: int, told: TokenEvent) -> Parsed:
        """Add an event to its choice; return what it adds."""
        choice = self.choices[index]
        if told.prompt is not None and index == 0:
            self.prompt = told.prompt
        choice.num_output = max(choice.num_output, told.num_output)
        choice.finish = told.finish
        if self.head.logprobs:
            choice.tokens += [logprob_entry(self.tokenizer, token) for token in told.tokens]
        parsed = choice.parse(told)
        choice.pieces.append(parsed.content)
        for part in parsed.calls:
            if part.name is not None:
                choice.calls.append(self._call(choice, part))
            else:
                choice.calls[part.index]["function"]["arguments"] += part.arguments
        return parsed

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What is known of the prompt by the first event."""
        return miss_header(self.prompt)

    def opening(self, index: int, told: TokenEvent) -> bytes:  # noqa: ARG002  (the contract's shape: one prompt here)
        """Render the chunks that open every choice, in ascending order; the role appears here alone."""
        self.prompt = told.prompt or self.prompt
        delta = {"role": "assistant", "content": "", "refusal": None}
        early = {"prompt_usage": self._usage()} if self.head.early_usage else {}
        return b"".join(
            self._chunk(choice.index, delta, extra=early if choice.index == 0 else {}) for choice in self.choices
        )

    def chunks(self, index: int, told: TokenEvent) -> bytes:
        """Take an event and render what it adds to the stream; may be empty."""
        parsed = self.take(index, told)
        choice = self.choices[index]
        deltas: list[Json] = [{"content": parsed.content}] if parsed.content else []
        deltas += [self._call_delta(choice, part) for part in parsed.calls]
        if not deltas and choice.finish is not None and choice.tokens:
            deltas.append({"content": ""})
        rendered = b""
        for delta in deltas:
            rendered += self._chunk(index, delta, logprobs=self._logprobs(choice))
            choice.tokens.clear()
        if choice.finish is not None:
            rendered += self._chunk(index, {}, finish=choice.finish_reason)
        return rendered

    def closing(self) -> bytes:
        """Render the end of the stream."""
        if not self.head.include_usage:
            return DONE
        return event({**self._named("chat.completion.chunk"), "choices": [], "usage": self._usage()}) + DONE

    def whole(self) -> bytes:
        """Render the answer as one object."""
        choices = [
            {
                "index": choice.index,
                "message": self._message(choice),
                "logprobs": self._logprobs(choice),
                "finish_reason": choice.finish_reason,
            }
            for choice in self.choices
        ]
        return orjson.dumps({**self._named("chat.completion"), "choices": choices, "usage": self._usage()})

    def _message(self, choice: ChoiceState) -> Json:
        content = "".join(choice.pieces)
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        if choice.calls:
            message |= {"content": content or None, "tool_calls": choice.calls}
        return message

    def _usage(self) -> Json:
        details = prompt_details(self.prompt, self.head.breakpoints)
        return usage(self.head.prompt_tokens, sum(choice.num_output for choice in self.choices), details)

    def _call(self, choice: ChoiceState, part: CallPart) -> Json:
        """Begin a call; its id follows from the reply's, so that it is never drawn twice."""
        call_id = f"call_{self.head.reply_id[-20:]}{choice.index:02x}{part.index:02x}"
        return {"id": call_id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}

    def _call_delta(self, choice: ChoiceState, part: CallPart) -> Json:
        if part.name is None:
            return {"tool_calls": [{"index": part.index, "function": {"arguments": part.arguments}}]}
        call = choice.calls[part.index]
        function = {"name": part.name, "arguments": part.arguments}
        return {"tool_calls": [{"index": part.index, **call, "function": function}]}

    def _named(self, kind: str) -> Json:
        head = self.head
        return {"id": head.reply_id, "object": kind, "created": head.created, "model": head.model}

    def _chunk(
        self,
        index: int,
        delta: Json,
        finish: str | None = None,
        logprobs: Json | None = None,
        extra: Json | None = None,
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        chunk: Json = {**self._named("chat.completion.chunk"), "choices": [choice], **(extra or {})}
        if self.head.include_usage:
            chunk["usage"] = None
        return event(chunk)

    def _logprobs(self, choice: ChoiceState) -> Json | None:
        return {"content": list(choice.tokens), "refusal": None} if self.head.logprobs else None


def new_choices(count: int, parser: Callable[[], ToolParser] | None) -> tuple[ChoiceState, ...]:
    """Build `count` empty choices, each with a parser of its own."""
    return tuple(ChoiceState(index, None if parser is None else parser()) for index in range(count))
