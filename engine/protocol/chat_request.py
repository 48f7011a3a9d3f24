"""`POST /v1/chat/completions` bodies: every bound, and a refusal for whatever would change the answer unheard."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError
from engine.protocol.fields import Range, bad_field, read_bool, read_float, read_int, read_str
from engine.protocol.messages import Message, read_messages
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults, SamplingParams

MAX_CHOICES = 16
MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 1024
MAX_SALT_CHARS = 1024
_MAX_TOKENS = 2**31 - 1
_SEEDS = Range(-(2**63), 2**63 - 1)

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "echo": (False,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": (),
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
        params: sampling; `max_tokens` is 0 when the client named none.
        cache_salt: namespace of whatever is shared between requests.
    """

    model: str
    messages: tuple[Message, ...]
    params: SamplingParams
    n: int
    stream: bool
    include_usage: bool
    cache_salt: str | None


def read_chat_call(body: Any, defaults: SamplingDefaults = PLAIN_SAMPLING) -> ChatCall:
    """Check a body; unknown fields are ignored, and what it does not say about sampling is the model's default.

    Raises:
        RequestError: 400, naming the field.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    for name, neutral in _NEUTRAL.items():
        value = body.get(name)
        if value is not None and value not in neutral:
            raise _unsupported(name)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model parameter.", param="model")
    stream = read_bool(body, "stream")
    return ChatCall(
        model=model,
        messages=read_messages(body.get("messages")),
        params=_params(body, defaults),
        n=read_int(body, "n", Range(1, MAX_CHOICES), 1),
        stream=stream,
        include_usage=_include_usage(body, stream),
        cache_salt=read_str(body, "cache_salt", MAX_SALT_CHARS),
    )


def _unsupported(name: str) -> RequestError:
    message = f"'{name}' is not supported by this model, and ignoring it would change the answer."
    return RequestError(400, message, code="unsupported_parameter", param=name)


def _params(body: Mapping[str, Any], defaults: SamplingDefaults) -> SamplingParams:
    newer = read_int(body, "max_completion_tokens", Range(1, _MAX_TOKENS), 0)
    seed = read_int(body, "seed", _SEEDS, 0)
    return SamplingParams(
        max_tokens=newer or read_int(body, "max_tokens", Range(1, _MAX_TOKENS), 0),
        temperature=read_float(body, "temperature", Range(0, 2), defaults.temperature),
        top_p=read_float(body, "top_p", Range(0, 1), defaults.top_p),
        top_k=max(0, read_int(body, "top_k", Range(-1, _MAX_TOKENS), 0)),
        min_p=read_float(body, "min_p", Range(0, 1), 0.0),
        seed=None if body.get("seed") is None else seed,
        stop=_stop(body.get("stop")),
        stop_token_ids=_stop_token_ids(body.get("stop_token_ids")),
        ignore_eos=read_bool(body, "ignore_eos"),
        presence_penalty=read_float(body, "presence_penalty", Range(-2, 2), 0.0),
        frequency_penalty=read_float(body, "frequency_penalty", Range(-2, 2), 0.0),
        logit_bias=_logit_bias(body.get("logit_bias")),
        top_logprobs=_top_logprobs(body),
    )


def _stop(value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        raise bad_field("stop", f"must be a string or a list of at most {MAX_STOPS} strings")
    if not all(isinstance(stop, str) and 1 <= len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise bad_field("stop", f"each must be a string of 1 to {MAX_STOP_CHARS} characters")
    return tuple(stops)


def _stop_token_ids(value: Any) -> frozenset[int]:
    ids = value or []
    if not isinstance(ids, list) or len(ids) > MAX_STOPS or not all(type(item) is int for item in ids):
        raise bad_field("stop_token_ids", f"must be a list of at most {MAX_STOPS} token ids")
    return frozenset(ids)


def _logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
    bias = value or {}
    if not isinstance(bias, dict) or len(bias) > MAX_BIASES:
        raise bad_field("logit_bias", f"must be an object of at most {MAX_BIASES} token ids")
    names = [name for name in bias if not (name.isascii() and name.isdecimal() and len(name) < len("1000000000"))]
    if names:
        raise bad_field("logit_bias", "keys must be token ids")
    named = {f"logit_bias.{name}": addend for name, addend in bias.items()}
    addends = (read_float(named, name, Range(-100, 100), 0.0) for name in named)
    return tuple(zip(map(int, bias), addends, strict=True))


def _top_logprobs(body: Mapping[str, Any]) -> int | None:
    wanted = read_bool(body, "logprobs")
    count = read_int(body, "top_logprobs", Range(0, MAX_TOP_LOGPROBS), 0)
    if count and not wanted:
        raise bad_field("top_logprobs", "needs 'logprobs' to be true")
    return count if wanted else None


def _include_usage(body: Mapping[str, Any], stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise bad_field("stream_options", "is only allowed when 'stream' is true")
    if not isinstance(options, dict):
        raise bad_field("stream_options", "must be an object")
    return read_bool(options, "include_usage")
