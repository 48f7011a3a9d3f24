"""The nouns that flow between rooms: who asks, what is asked, what was answered."""

from collections.abc import Mapping
from typing import Any

import msgspec

Json = dict[str, Any]
"""A JSON object after strict parsing."""


class Principal(msgspec.Struct, frozen=True):
    """Who asks, as the credential alone says."""

    tenant_id: str
    key_id: str


class CacheMark(msgspec.Struct, frozen=True):
    """Asks the model's server to keep the prompt up to and including a place of the body.

    Attributes:
        place: keys and positions down to a part of a message's content (a text has one part), to a call of
            `tool_calls`, or to a tool: `("messages", 0, "content", 1)`, `("tools", 3)`.
        ttl_s: for how long, from the request or from its latest reuse: 300 or 3600.
    """

    place: tuple[str | int, ...]
    ttl_s: int


class ChatRequest(msgspec.Struct, frozen=True):
    """A chat request in neutral form; wire names of other protocols stop before it.

    Attributes:
        model: the name the client asked for, before aliases and routes.
        body: what is keyed and forwarded: OpenAI chat fields without `model`, `stream`, `stream_options`.
        marks: in the order of the prompt: tools, then messages. Beside the body, so that a key cannot see them:
            they are the exception to "what is keyed is what is forwarded", as they change no answer.
        stream: whether the client wants events.
        include_usage: whether a streaming client asked for the usage chunk.
    """

    model: str
    body: Json
    stream: bool = False
    include_usage: bool = False
    marks: tuple[CacheMark, ...] = ()


class Choice(msgspec.Struct, frozen=True):
    """One finished answer.

    Attributes:
        index: position among the `n` choices, from 0.
        message: role, content, refusal, tool_calls and whatever else the model said, deltas merged.
        finish_reason: why it ended; None when the upstream never said.
        logprobs: OpenAI logprobs object, or None.
        pieces: lengths, in characters, of the content deltas as they came; empty when it came whole.
        extra: other fields of the choice (stop_reason, content_filter_results, …), kept as they came.
    """

    index: int
    message: Json
    finish_reason: str | None
    logprobs: Json | None = None
    pieces: tuple[int, ...] = ()
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ChatResponse(msgspec.Struct, frozen=True):
    """A whole answer in neutral form.

    Attributes:
        id: the id that the model's server gave it.
        created: seconds since the epoch, as that server says.
        model: the model's name as that server says.
        choices: ascending by index.
        usage: OpenAI usage object as reported, or None when the server was silent.
        extra: other top-level fields (system_fingerprint, service_tier, …), kept as they came.
    """

    id: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Json | None = None
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


def token_counts(usage: Json | None) -> tuple[int, int]:
    """Prompt and completion tokens of a usage object; 0 where it is silent."""
    if usage is None:
        return 0, 0
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return max(0, prompt if type(prompt) is int else 0), max(0, completion if type(completion) is int else 0)


def cached_tokens(usage: Json | None) -> int:
    """Prompt tokens that a model's server had in its own cache; 0 where the usage is silent."""
    details = (usage or {}).get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return max(0, cached) if type(cached) is int else 0
