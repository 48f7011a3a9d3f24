"""`POST /tokenize` and `/detokenize`, in vLLM's shape, and what `/cache/purge` takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engine.errors import RequestError
from engine.protocol.completion_request import read_token_ids
from engine.protocol.fields import bad_field, read_bool
from engine.protocol.messages import Message, read_messages
from engine.protocol.prompt_cache import lift_prompt_cache
from engine.protocol.tools import Tool, read_tools

MAX_SALTS = 10_000


@dataclass(frozen=True, slots=True)
class TokenizeCall:
    """What to tokenise: a prompt as it is, or messages through the chat template.

    Attributes:
        begin: whether the prompt begins with the model's begin token, where it has one.
        spell: whether to return the tokens' texts too.
    """

    prompt: str | None
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    begin: bool
    spell: bool


def read_tokenize_call(body: Any) -> TokenizeCall:
    """Check a body.

    Raises:
        RequestError: 400, naming the field.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    body, _ = lift_prompt_cache(body)
    prompt = body.get("prompt")
    if not isinstance(prompt, str | None) or (prompt is None) == (body.get("messages") is None):
        raise bad_field("prompt", "must be a string, or 'messages' must be given instead")
    return TokenizeCall(
        prompt=prompt,
        messages=() if prompt is not None else read_messages(body["messages"]),
        tools=read_tools(body).offered,
        begin=body.get("add_special_tokens") is None or read_bool(body, "add_special_tokens"),
        spell=read_bool(body, "return_token_strs"),
    )


def read_detokenize_call(body: Any) -> tuple[int, ...]:
    """Check a body and return its token ids.

    Raises:
        RequestError: 400, naming the field.
    """
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    return read_token_ids("tokens", body.get("tokens"))


def read_purge_call(body: Any) -> tuple[str, ...]:
    """Check a body and return the salts whose blocks are to go.

    Raises:
        RequestError: 400, naming the field.
    """
    salts = body.get("salts") if isinstance(body, dict) else None
    if not isinstance(salts, list) or not all(isinstance(salt, str) and salt for salt in salts):
        raise bad_field("salts", "must be an array of texts")
    if not 0 < len(salts) <= MAX_SALTS:
        raise bad_field("salts", f"must hold 1 to {MAX_SALTS} of them")
    return tuple(salts)


def tokenized(ids: Sequence[int], max_context: int, spellings: Sequence[str] | None) -> bytes:
    """Render the tokens of a text."""
    body = {"count": len(ids), "max_model_len": max_context, "tokens": ids, "token_strs": spellings}
    return orjson.dumps(body)


def detokenized(text: str) -> bytes:
    """Render the text of tokens."""
    return orjson.dumps({"prompt": text})
