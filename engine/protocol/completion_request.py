"""`POST /v1/completions` bodies: prompts as text or tokens, without a chat template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.grammar.contract import GrammarSpec
from engine.protocol.chat_request import MAX_CHOICES, MAX_SALT_CHARS, PRIORITIES
from engine.protocol.fields import Range, bad_field, read_bool, read_int, read_model, read_str, refuse_unheard
from engine.protocol.sampling_fields import MAX_TOKENS, read_bad_words, read_sampling, read_stream_usage
from engine.protocol.structured import read_grammar
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults, SamplingParams

MAX_PROMPTS = 64
MAX_ANSWERS = 128
MAX_LOGPROBS = 5
DEFAULT_MAX_TOKENS = 16
"""What the protocol says of requests that name none."""

Prompt = str | tuple[int, ...]

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "echo": (False,),
    "suffix": ("",),
    "prompt_embeds": (),
    "guided_whitespace_pattern": (),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "truncate_prompt_tokens": (),
}
"""Fields this engine does not carry out, with the values (besides null) that ask for nothing."""


@dataclass(frozen=True, slots=True)
class CompletionCall:
    """A checked request, before its prompts are tokenised.

    Attributes:
        n: answers generated for each prompt.
        shown: how many of them are given, the likeliest; all where it equals `n`.
        max_tokens: None when the client names none; 0 only computes the prompts.
        params: sampling, its `max_tokens` not decided yet.
        logprobs: how many rivals to tell beside each token; None tells nothing.
        bad_words: texts that must not appear.
        grammar: what the answers must follow.
        cache_salt: namespace of whatever is shared between requests.
        priority: lower runs sooner.
    """

    model: str
    prompts: tuple[Prompt, ...]
    params: SamplingParams
    n: int
    shown: int
    stream: bool
    include_usage: bool
    cache_salt: str | None
    max_tokens: int | None
    logprobs: int | None
    bad_words: tuple[str, ...]
    grammar: GrammarSpec | None
    priority: int


def read_completion_call(body: Any, defaults: SamplingDefaults = PLAIN_SAMPLING) -> CompletionCall:
    """Check a body; unknown fields are ignored.

    Raises:
        RequestError: 400, naming the field.
    """
    body = read_model(body)
    refuse_unheard(body, _NEUTRAL)
    stream = read_bool(body, "stream")
    shown = read_int(body, "n", Range(1, MAX_CHOICES), 1)
    count = read_int(body, "best_of", Range(shown, MAX_CHOICES), shown)
    if stream and count > shown:
        raise bad_field("best_of", "must equal 'n' when 'stream' is true")
    prompts = _prompts(body.get("prompt"))
    if len(prompts) * count > MAX_ANSWERS:
        raise bad_field("n", f"times the prompts must be at most {MAX_ANSWERS} answers")
    named = body.get("max_tokens") is not None
    max_tokens = read_int(body, "max_tokens", Range(0, MAX_TOKENS), 0) if named else None
    logprobs = None if body.get("logprobs") is None else read_int(body, "logprobs", Range(0, MAX_LOGPROBS), 0)
    return CompletionCall(
        model=body["model"],
        prompts=prompts,
        params=read_sampling(body, defaults, max_tokens, 0 if logprobs is None and count > shown else logprobs),
        n=count,
        shown=shown,
        stream=stream,
        include_usage=read_stream_usage(body, stream),
        cache_salt=read_str(body, "cache_salt", MAX_SALT_CHARS),
        max_tokens=max_tokens,
        logprobs=logprobs,
        bad_words=read_bad_words(body),
        grammar=read_grammar(body),
        priority=read_int(body, "priority", PRIORITIES, 0),
    )


def read_token_ids(name: str, value: Any) -> tuple[int, ...]:
    """Read a list of token ids, which may be empty.

    Raises:
        RequestError: 400, naming the field.
    """
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise bad_field(name, "must be a list of token ids")
    return tuple(value)


def _prompts(value: Any) -> tuple[Prompt, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise bad_field("prompt", "must be a string, a list of strings, or one or more lists of token ids")
    if isinstance(value[0], int):
        return (read_token_ids("prompt", value),)
    if len(value) > MAX_PROMPTS:
        raise bad_field("prompt", f"must be at most {MAX_PROMPTS} prompts")
    return tuple(
        one if isinstance(one, str) else read_token_ids(f"prompt[{index}]", one) for index, one in enumerate(value)
    )
