"""Token events to `text_completion` objects, whole or streamed."""

from dataclasses import dataclass, field, replace

import orjson

from engine.events import FinishReason, TokenEvent
from engine.prompt_use import PromptUse
from engine.protocol.chat_reply import ReplyHead
from engine.protocol.prompt_usage import miss_header, prompt_details
from engine.protocol.reply_parts import DONE, Json, event, usage
from engine.sampler import Sampled
from engine.tokenizer import Tokenizer


@dataclass(slots=True)
class CompletionChoice:
    """What has been said in one choice.

    Attributes:
        tokens: those not told yet; all of them, when nothing streams.
        offset: characters before those.
        prompt: what became of its prompt in the cache.
    """

    pieces: list[str] = field(default_factory=list)
    tokens: list[Sampled] = field(default_factory=list)
    offset: int = 0
    finish: FinishReason | None = None
    num_output: int = 0
    prompt: PromptUse = field(default_factory=PromptUse)

    @property
    def mean_logprob(self) -> float:
        """How likely the answer was, per token."""
        known = [token.chosen.logprob for token in self.tokens if token.chosen is not None]
        return sum(known) / max(1, len(known))


@dataclass(slots=True)
class CompletionReply:
    """Answers to one or more prompts being put together, in either form.

    Attributes:
        choices: prompt by prompt.
        per_prompt: how many of them belong to each prompt.
        shown: how many of those are given.
    """

    head: ReplyHead
    tokenizer: Tokenizer
    choices: tuple[CompletionChoice, ...]
    per_prompt: int
    shown: int

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        return all(choice.finish is not None for choice in self.choices)

    def take(self, index: int, told: TokenEvent) -> CompletionChoice:
        """Add an event to its choice."""
        choice = self.choices[index]
        choice.prompt = told.prompt or choice.prompt
        choice.pieces.append(told.text)
        choice.tokens += told.tokens
        choice.num_output = max(choice.num_output, told.num_output)
        choice.finish = told.finish
        return choice

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What is known of the first prompt: nothing, where a stream begins with another's text."""
        return miss_header(self.choices[0].prompt)

    def opening(self, index: int, told: TokenEvent) -> bytes:
        """Look at the first event; streams of completions begin with their first text."""
        self.choices[index].prompt = told.prompt or self.choices[index].prompt
        return b""

    def chunks(self, index: int, told: TokenEvent) -> bytes:
        """Take an event and render what it adds to the stream; may be empty."""
        choice = self.take(index, told)
        if not told.text and choice.finish is None:
            return b""
        body: Json = {**self._named(), "choices": [self._choice(index, choice, told.text)]}
        if self.head.include_usage:
            body["usage"] = None
        choice.offset += len(told.text)
        choice.tokens.clear()
        return event(body)

    def closing(self) -> bytes:
        """Render the end of the stream."""
        if not self.head.include_usage:
            return DONE
        return event({**self._named(), "choices": [], "usage": self._usage()}) + DONE

    def whole(self) -> bytes:
        """Render the answers as one object."""
        best: list[CompletionChoice] = []
        for start in range(0, len(self.choices), self.per_prompt):
            group = self.choices[start : start + self.per_prompt]
            if self.shown < self.per_prompt:
                group = tuple(sorted(group, key=lambda choice: -choice.mean_logprob))
            best += group[: self.shown]
        choices = [self._choice(index, choice, "".join(choice.pieces)) for index, choice in enumerate(best)]
        return orjson.dumps({**self._named(), "choices": choices, "usage": self._usage()})

    def _choice(self, index: int, choice: CompletionChoice, text: str) -> Json:
        return {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(choice) if self.head.logprobs else None,
            "finish_reason": None if choice.finish is None else choice.finish.value,
        }

    def _logprobs(self, choice: CompletionChoice) -> Json:
        names = [self._name(token.token_id) for token in choice.tokens]
        offsets = [choice.offset + sum(map(len, names[:count])) for count in range(len(names))]
        return {
            "tokens": names,
            "token_logprobs": [None if one.chosen is None else one.chosen.logprob for one in choice.tokens],
            "top_logprobs": [
                {self._name(entry.token_id): entry.logprob for entry in token.top} for token in choice.tokens
            ],
            "text_offset": offsets,
        }

    def _name(self, token_id: int) -> str:
        return self.tokenizer.label(token_id).decode("utf-8", errors="replace")

    def _usage(self) -> Json:
        first = [choice.prompt for choice in self.choices[:: self.per_prompt]]
        use = replace(
            first[0],
            cached=sum(one.cached for one in first),
            written=sum(one.written for one in first),
            host=sum(one.host for one in first),
        )
        details = prompt_details(use, ())
        return usage(self.head.prompt_tokens, sum(choice.num_output for choice in self.choices), details)

    def _named(self) -> Json:
        head = self.head
        return {"id": head.reply_id, "object": "text_completion", "created": head.created, "model": head.model}
