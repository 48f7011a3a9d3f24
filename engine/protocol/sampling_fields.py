"""How a request wants its tokens chosen: the sampling fields that chat and completions share."""

from collections.abc import Mapping
from typing import Any

from engine.protocol.fields import Range, bad_field, read_bool, read_float, read_int
from engine.sampling import SamplingDefaults, SamplingParams

MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_BIASES = 1024
MAX_LISTED = 1024
MAX_TOKENS = 2**31 - 1
_SEEDS = Range(-(2**63), 2**63 - 1)
_REPETITIONS = Range(0.01, 2)
"""Logits divided by less could overflow."""

_ID_DIGITS = 9


def read_sampling(
    body: Mapping[str, Any], defaults: SamplingDefaults, max_tokens: int | None, top_logprobs: int | None
) -> SamplingParams:
    """Check every sampling field.

    Args:
        body: the request.
        defaults: for what it does not say.
        max_tokens: as read; None when the client names none, and then the result's is to be replaced.
        top_logprobs: as read; None reports none.

    Raises:
        RequestError: 400, naming the field.
    """
    seed = read_int(body, "seed", _SEEDS, 0)
    min_tokens = read_int(body, "min_tokens", Range(0, MAX_TOKENS), 0)
    if max_tokens is not None and min_tokens > max_tokens:
        raise bad_field("min_tokens", "must not be more than 'max_tokens'")
    return SamplingParams(
        max_tokens=max_tokens or 0,
        min_tokens=min_tokens,
        temperature=read_float(body, "temperature", Range(0, 2), defaults.temperature),
        top_p=read_float(body, "top_p", Range(0, 1), defaults.top_p),
        top_k=max(0, read_int(body, "top_k", Range(-1, MAX_TOKENS), 0)),
        min_p=read_float(body, "min_p", Range(0, 1), 0.0),
        seed=None if body.get("seed") is None else seed,
        stop=_texts("stop", body.get("stop"), MAX_STOPS),
        stop_token_ids=frozenset(_token_ids("stop_token_ids", body.get("stop_token_ids"), MAX_STOPS)),
        ignore_eos=read_bool(body, "ignore_eos"),
        repetition_penalty=read_float(body, "repetition_penalty", _REPETITIONS, 1.0),
        presence_penalty=read_float(body, "presence_penalty", Range(-2, 2), 0.0),
        frequency_penalty=read_float(body, "frequency_penalty", Range(-2, 2), 0.0),
        logit_bias=_logit_bias(body.get("logit_bias")),
        allowed_token_ids=_token_ids("allowed_token_ids", body.get("allowed_token_ids"), MAX_LISTED),
        top_logprobs=top_logprobs,
    )


def read_bad_words(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `bad_words`: texts that must not appear, not tokenised yet."""
    words = body.get("bad_words")
    if isinstance(words, str):
        raise bad_field("bad_words", "must be a list of strings")
    return _texts("bad_words", words, MAX_LISTED)


def read_stream_usage(body: Mapping[str, Any], stream: bool) -> bool:
    """Read whether a stream ends with its usage."""
    options = body.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise bad_field("stream_options", "is only allowed when 'stream' is true")
    if not isinstance(options, dict):
        raise bad_field("stream_options", "must be an object")
    return read_bool(options, "include_usage")


def _texts(name: str, value: Any, most: int) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or len(texts) > most:
        raise bad_field(name, f"must be a string or a list of at most {most} strings")
    if not all(isinstance(text, str) and 1 <= len(text) <= MAX_STOP_CHARS for text in texts):
        raise bad_field(name, f"each must be a string of 1 to {MAX_STOP_CHARS} characters")
    return tuple(texts)


def _token_ids(name: str, value: Any, most: int) -> tuple[int, ...]:
    ids = value or []
    if not isinstance(ids, list) or len(ids) > most or not all(type(item) is int and item >= 0 for item in ids):
        raise bad_field(name, f"must be a list of at most {most} token ids")
    return tuple(ids)


def _logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
    bias = value or {}
    if not isinstance(bias, dict) or len(bias) > MAX_BIASES:
        raise bad_field("logit_bias", f"must be an object of at most {MAX_BIASES} token ids")
    if not all(name.isascii() and name.isdecimal() and len(name) <= _ID_DIGITS for name in bias):
        raise bad_field("logit_bias", "keys must be token ids")
    named = {f"logit_bias.{name}": addend for name, addend in bias.items()}
    addends = (read_float(named, name, Range(-100, 100), 0.0) for name in named)
    return tuple(zip(map(int, bias), addends, strict=True))
