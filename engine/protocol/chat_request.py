"""`POST /v1/chat/completions` bodies: every bound, and a refusal for whatever would change the answer unheard."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.grammar.contract import GrammarSpec
from engine.protocol.fields import Range, bad_field, read_bool, read_int, read_model, read_str, refuse_unheard
from engine.protocol.messages import Message, read_messages
from engine.protocol.prompt_cache import NO_WISHES, PromptCacheFields, lift_prompt_cache
from engine.protocol.sampling_fields import MAX_TOKENS, read_bad_words, read_sampling, read_stream_usage
from engine.protocol.structured import read_grammar
from engine.protocol.tools import NO_TOOLS, ToolWishes, read_tools
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults, SamplingParams

MAX_CHOICES = 16
MAX_TOP_LOGPROBS = 20
MAX_SALT_CHARS = 1024
MAX_TEMPLATE_OPTIONS = 16
MAX_OPTION_CHARS = 1024
PRIORITIES = Range(-(2**31), 2**31 - 1)

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "chat_template": (),
    "documents": ([],),
    "echo": (False,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "guided_whitespace_pattern": (),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "thinking_token_budget": (),
}
"""Fields this engine does not carry out, with the values (besides null) that ask for nothing."""


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A checked request, before its prompt is tokenised.

    Attributes:
        max_tokens: None when the client names none; 0 only computes the prompt.
        params: sampling, its `max_tokens` not decided yet.
        bad_words: texts that must not appear.
        template_options: values for the chat template, by name.
        grammar: what the answer's text must follow.
        cache_salt: namespace of whatever is shared between requests.
        early_usage: whether a stream tells what it knows of the prompt in its first chunk.
        prompt_cache: what is to be kept longer.
        priority: lower runs sooner.
    """

    model: str
    messages: tuple[Message, ...]
    params: SamplingParams
    n: int
    stream: bool
    include_usage: bool
    cache_salt: str | None
    early_usage: bool = False
    prompt_cache: PromptCacheFields = NO_WISHES
    max_tokens: int | None = None
    bad_words: tuple[str, ...] = ()
    template_options: Mapping[str, str | float] = field(default_factory=dict)
    grammar: GrammarSpec | None = None
    tools: ToolWishes = NO_TOOLS
    priority: int = 0

    @property
    def shows_tools(self) -> bool:
        """Whether the model's template must know tools."""
        return bool(self.tools.offered) or any(
            "tool_calls" in one or one["role"] == "tool" for one in self.messages
        )


def read_chat_call(body: Any, defaults: SamplingDefaults = PLAIN_SAMPLING) -> ChatCall:
    """Check a body; unknown fields are ignored, and what it does not say about sampling is the model's default.

    Raises:
        RequestError: 400, naming the field.
    """
    body, prompt_cache = lift_prompt_cache(read_model(body))
    refuse_unheard(body, _NEUTRAL)
    stream = read_bool(body, "stream")
    max_tokens = _max_tokens(body)
    return ChatCall(
        model=body["model"],
        messages=read_messages(body.get("messages")),
        params=read_sampling(body, defaults, max_tokens, _top_logprobs(body)),
        n=read_int(body, "n", Range(1, MAX_CHOICES), 1),
        stream=stream,
        include_usage=read_stream_usage(body, stream),
        cache_salt=read_str(body, "cache_salt", MAX_SALT_CHARS),
        early_usage=stream and read_bool(body.get("stream_options") or {}, "include_prompt_usage"),
        prompt_cache=prompt_cache,
        max_tokens=max_tokens,
        bad_words=read_bad_words(body),
        template_options=_template_options(body.get("chat_template_kwargs") or {}),
        grammar=read_grammar(body),
        tools=read_tools(body),
        priority=read_int(body, "priority", PRIORITIES, 0),
    )


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        if body.get(name) is not None:
            return read_int(body, name, Range(0, MAX_TOKENS), 0)
    return None


def _top_logprobs(body: Mapping[str, Any]) -> int | None:
    wanted = read_bool(body, "logprobs")
    count = read_int(body, "top_logprobs", Range(0, MAX_TOP_LOGPROBS), 0)
    if count and not wanted:
        raise bad_field("top_logprobs", "needs 'logprobs' to be true")
    return count if wanted else None


def _template_options(value: Any) -> Mapping[str, str | float]:
    if not isinstance(value, dict) or len(value) > MAX_TEMPLATE_OPTIONS:
        raise bad_field("chat_template_kwargs", f"must be an object of at most {MAX_TEMPLATE_OPTIONS} names")
    for name, option in value.items():
        if not isinstance(option, str | int | float) or len(str(option)) > MAX_OPTION_CHARS:
            raise bad_field(f"chat_template_kwargs.{name}", "must be a short string, a number or true or false")
    return value
