"""What every kind of reply is made of: usage, log-probabilities, errors and events."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from engine.errors import RequestError
from engine.sampler import Logprob, Sampled
from engine.tokenizer import Tokenizer

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def usage(prompt_tokens: int, completion_tokens: int, details: Json) -> Json:
    """Count tokens; `completion_tokens` includes end tokens, as they were generated.

    Args:
        prompt_tokens: cached ones included.
        completion_tokens: of all answers.
        details: of the prompt, see `engine.protocol.prompt_usage`.
    """
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": details,
    }


def logprob_entry(tokenizer: Tokenizer, token: Sampled) -> Json:
    """Describe a chosen token and its rivals as chat answers do."""
    chosen = token.chosen or Logprob(token.token_id, 0.0)
    return {**_named(tokenizer, chosen), "top_logprobs": [_named(tokenizer, entry) for entry in token.top]}


def error_body(error: RequestError) -> bytes:
    """Render an error in OpenAI's shape."""
    return orjson.dumps(_error(error))


def error_event(error: RequestError) -> bytes:
    """Render an error inside a stream."""
    return event(_error(error))


def model_entry(name: str, created: int) -> Json:
    """Describe the served model."""
    return {"id": name, "object": "model", "created": created, "owned_by": "lamina"}


def model_list(entries: Iterable[Json]) -> Json:
    """Wrap models in a list."""
    return {"object": "list", "data": list(entries)}


def event(value: Mapping[str, Any]) -> bytes:
    """Render one event of a stream."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _named(tokenizer: Tokenizer, entry: Logprob) -> Json:
    label = tokenizer.label(entry.token_id)
    text = label.decode("utf-8", errors="replace")
    return {"token": text, "logprob": entry.logprob, "bytes": list(label)}


def _error(error: RequestError) -> Json:
    detail = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
    return {"error": detail}
