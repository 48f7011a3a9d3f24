"""The model as the API sees it: a name, a context length, and how a chat call becomes a job."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from engine.breakpoints import Render, marked_chars, token_breakpoints
from engine.chat_template import ChatTemplate
from engine.errors import RequestError
from engine.grammar.contract import GrammarCompiler, GrammarSpec
from engine.kv.wishes import Breakpoint, CacheWishes
from engine.protocol.chat_request import ChatCall
from engine.protocol.completion_request import DEFAULT_MAX_TOKENS, CompletionCall, Prompt
from engine.protocol.prompt_cache import NO_WISHES, Where
from engine.protocol.token_calls import TokenizeCall
from engine.protocol.tool_formats import ToolFormat, call_grammar, find_format
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults, SamplingParams
from engine.scheduler import context_overflow
from engine.tokenizer import Tokenizer
from engine.worker import Job


class Answerable(Protocol):
    """What every kind of call says about its answer."""

    @property
    def params(self) -> SamplingParams:
        """Sampling; its `max_tokens` is not decided yet."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """As the client gave it."""
        ...

    @property
    def bad_words(self) -> tuple[str, ...]:
        """Texts that must not appear."""
        ...

    @property
    def n(self) -> int:
        """Answers to each prompt."""
        ...

    @property
    def cache_salt(self) -> str | None:
        """Namespace of whatever is shared between requests."""
        ...

    @property
    def priority(self) -> int:
        """Lower runs sooner."""
        ...


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What turns a checked call into tokens.

    Attributes:
        max_context: most prompt and answer tokens one sequence may have here.
        default_max_tokens: bound on the answer when the client names none.
        created: seconds since the epoch, shown in the model list.
        grammars: compiles what answers must follow.
        sampling: for requests that say nothing about it.
        min_cache_tokens: shortest marked prefix that is kept longer than others.
    """

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    max_context: int
    default_max_tokens: int
    created: int
    grammars: GrammarCompiler
    sampling: SamplingDefaults = PLAIN_SAMPLING
    min_cache_tokens: int = 1

    @property
    def spelling(self) -> ToolFormat | None:
        """How this model's calls are spelt; None when it knows no tools."""
        if self.template is None or not self.template.knows_tools:
            return None
        return find_format(self.template.source)

    def job(self, call: ChatCall) -> Job:
        """Render, tokenise and bound a call, and compile its grammar. May take seconds: not on the event loop.

        Raises:
            RequestError: the template refuses the messages, the prompt leaves no room for an answer, or what the
                answer must follow cannot be enforced.
        """
        if self.template is None:
            raise RequestError(400, f"The model {self.name!r} has no chat template.", param="messages")
        if unknown := call.template_options.keys() - self.template.options:
            message = f"This model's chat template has no option {min(unknown)!r}."
            raise RequestError(400, message, code="unsupported_parameter", param="chat_template_kwargs")
        spec = self._answer_grammar(call)
        render = partial(self.template.render, options=call.template_options)
        text = render(call.messages, [tool.shown for tool in call.tools.offered])
        self._require_short(text, call.max_tokens)
        if call.prompt_cache == NO_WISHES:
            return self._bounded(self.tokenizer.encode(text), call, self.default_max_tokens, spec)
        prompt_ids, ends = self.tokenizer.encode_with_ends(text)
        job = self._bounded(prompt_ids, call, self.default_max_tokens, spec)
        kept = self._breakpoints(call, render, text, ends)
        return replace(job, cache=replace(job.cache, breakpoints=kept))

    def _breakpoints(
        self, call: ChatCall, render: Render, text: str, ends: Sequence[int]
    ) -> tuple[Breakpoint, ...]:
        """Where the prompt is to be kept up to; marks in places that are not shown count for nothing."""
        shown = {tool.index: place for place, tool in enumerate(call.tools.offered)}
        tools = [tool.shown for tool in call.tools.offered]
        positions: list[tuple[int, float]] = []
        for mark in call.prompt_cache.marks:
            is_tool = mark.where is Where.TOOL
            placed = replace(mark, index=shown.get(mark.index, len(tools))) if is_tool else mark
            chars = marked_chars(text, render, call.messages, tools, placed)
            if chars is not None:
                positions.append((chars, mark.ttl_s))
        if call.prompt_cache.whole_ttl_s is not None:
            positions.append((len(text), call.prompt_cache.whole_ttl_s))
        return token_breakpoints(ends, positions, self.min_cache_tokens)

    def completion_jobs(self, call: CompletionCall) -> tuple[Job, ...]:
        """Tokenise and bound each prompt, and compile the grammar. May take seconds: not on the event loop.

        Raises:
            RequestError: a prompt is empty, names unknown tokens or leaves no room for an answer, or what the
                answers must follow cannot be enforced.
        """
        try:
            return tuple(
                self._bounded(self._prompt_ids(prompt, call.max_tokens), call, DEFAULT_MAX_TOKENS, call.grammar)
                for prompt in call.prompts
            )
        except RequestError as error:
            raise replace(error, param="prompt" if error.param == "messages" else error.param) from error

    def token_ids(self, call: TokenizeCall) -> list[int]:
        """Tokenise as asked, without bounds. May take long: not on the event loop."""
        if call.prompt is not None:
            return self.tokenizer.encode_whole(call.prompt) if call.begin else self.tokenizer.encode(call.prompt)
        if self.template is None:
            raise RequestError(400, f"The model {self.name!r} has no chat template.", param="messages")
        return self.tokenizer.encode(self.template.render(call.messages, [tool.shown for tool in call.tools]))

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens. May take long: not on the event loop.

        Raises:
            RequestError: one is outside the vocabulary.
        """
        self._require_known("tokens", token_ids)
        return self.tokenizer.decode(token_ids)

    def _require_known(self, field: str, token_ids: Iterable[int]) -> None:
        if max(token_ids, default=0) >= self.tokenizer.vocab_size:
            raise RequestError(400, f"'{field}' names a token outside the vocabulary.", param=field)

    def _prompt_ids(self, prompt: Prompt, max_tokens: int | None) -> list[int]:
        if isinstance(prompt, str):
            self._require_short(prompt, max_tokens)
            ids = self.tokenizer.encode_whole(prompt)
        else:
            ids = list(prompt)
        if not ids:
            raise RequestError(400, "A prompt must have at least one token.", param="prompt")
        self._require_known("prompt", ids)
        return ids

    def _answer_grammar(self, call: ChatCall) -> GrammarSpec | None:
        spelling = self.spelling
        if call.shows_tools and spelling is None:
            message = "This model's chat template does not define tools."
            param = "tools" if call.tools.offered else "messages"
            raise RequestError(400, message, code="unsupported_parameter", param=param)
        if not call.tools.offered or spelling is None:
            return call.grammar
        return call_grammar(spelling, call.tools, call.grammar) or call.grammar

    def _require_short(self, text: str, max_tokens: int | None) -> None:
        """Refuse what cannot fit, however well it packs: it is not worth seconds of tokenising."""
        least = len(text) // self.tokenizer.longest_piece()
        if least > self.max_context:
            raise context_overflow(least, max_tokens or 0, self.max_context)

    def _bounded(self, prompt_ids: list[int], call: Answerable, default: int, spec: GrammarSpec | None) -> Job:
        self._require_known("logit_bias", [token_id for token_id, _ in call.params.logit_bias])
        self._require_known("allowed_token_ids", call.params.allowed_token_ids)
        room = self.max_context - len(prompt_ids)
        wanted = min(default, max(1, room)) if call.max_tokens is None else call.max_tokens
        if wanted > room:
            raise context_overflow(len(prompt_ids), wanted, self.max_context)
        if call.params.min_tokens > wanted:
            raise RequestError(400, "'min_tokens' is more than the answer may have.", param="min_tokens")
        params = replace(call.params, max_tokens=wanted, bad_words_ids=self._spelt(call.bad_words))
        grammar = None if spec is None else self.grammars.compile(spec)
        cache = CacheWishes(salt=call.cache_salt or "")
        return Job(tuple(prompt_ids), params, call.n, grammar, cache, call.priority)

    def _spelt(self, words: Iterable[str]) -> tuple[tuple[int, ...], ...]:
        """Return each word's tokens, at the start of a text and inside one."""
        spellings = (self.tokenizer.encode(text) for word in words for text in (word, f" {word}"))
        return tuple({tuple(ids): None for ids in spellings if ids})
