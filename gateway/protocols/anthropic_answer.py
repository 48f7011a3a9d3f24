"""The neutral answer as an Anthropic message; pure."""

from typing import Any

import orjson

from gateway.errors import UpstreamError
from gateway.protocols.shape import text_or_empty, whole_or_zero
from policies.types import ChatResponse, Choice, Json

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message or delta in which upstreams put what a model thought."""

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "end_turn",
    "function_call": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_DONE = frozenset({"stop", "tool_calls", "function_call"})


def stop_of(finish_reason: str | None, matched: Any, *, calls: bool, refuses: bool) -> Json:
    """The `stop_reason` and `stop_sequence` of an answer.

    A finished answer that calls tools stopped for them, whatever its upstream says. None stands for a reason that
    the upstream did not give, or that has no counterpart.

    Args:
        finish_reason: the neutral one.
        matched: the stop sequence that was met, where the upstream tells it.
        calls: whether the answer calls tools.
        refuses: whether it is a refusal.
    """
    reason, sequence = _STOPS.get(finish_reason or ""), None
    if refuses:
        reason = "refusal"
    elif calls and finish_reason in _DONE:
        reason = "tool_use"
    elif finish_reason == "stop" and isinstance(matched, str):
        reason, sequence = "stop_sequence", matched
    return {"stop_reason": reason, "stop_sequence": sequence}


def usage_of(usage: Json | None) -> Json:
    """The `usage` object, always whole: what is not known is 0, or null where the protocol allows that.

    `input_tokens` leaves out what the upstream's prompt cache read or created: the three add up to the prompt.
    Where the upstream tells for how long it wrote (`cache_write_tokens_details`, as the engine does), only what a
    mark asks to be kept counts as created; what was cached besides, with no promise, is plain input here.
    """
    known = usage or {}
    prompt, said = _object(known, "prompt_tokens_details"), _object(known, "completion_tokens_details")
    total, read = whole_or_zero(known.get("prompt_tokens")), whole_or_zero(prompt.get("cached_tokens"))
    split = _created(prompt)
    created = whole_or_zero(prompt.get("cache_write_tokens")) if split is None else sum(split.values())
    thought = said.get("reasoning_tokens")
    return {
        "input_tokens": max(0, total - read - created),
        "output_tokens": whole_or_zero(known.get("completion_tokens")),
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "cache_creation": split,
        "output_tokens_details": None if thought is None else {"thinking_tokens": whole_or_zero(thought)},
        "server_tool_use": None,
        "service_tier": None,
        "inference_geo": None,
        "speed": None,
    }


def _created(prompt: Json) -> Json | None:
    """What was written under marks, by the life they ask for; None when the upstream does not tell."""
    written = prompt.get("cache_write_tokens_details")
    if not isinstance(written, dict):
        return None
    hour = whole_or_zero(written.get("ttl_1h_tokens"))
    named = sum(whole_or_zero(tokens) for name, tokens in written.items() if name.startswith("ttl_"))
    return {"ephemeral_5m_input_tokens": named - hour, "ephemeral_1h_input_tokens": hour}


def _object(parent: Json, name: str) -> Json:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def message_of(answer_id: str, model: str, usage: Json | None) -> Json:
    """A message with nothing in it yet."""
    return {
        "id": answer_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "diagnostics": None,
        "usage": usage_of(usage),
    }


def render_message(response: ChatResponse, answer_id: str, model: str) -> Json:
    """The whole answer under this id.

    Raises:
        UpstreamError: a finished tool call has no JSON object for arguments, so that no client could run it.
    """
    choice = response.choices[0]
    message = message_of(answer_id, model, response.usage)
    return {**message, "content": blocks_of(choice), **stop_of_choice(choice)}


def blocks_of(choice: Choice) -> list[Json]:
    """The content blocks of a whole choice: thinking, text, tool calls.

    Raises:
        UpstreamError: see `render_message`.
    """
    blocks = thoughts_of(choice.message)
    said = said_of(choice.message)
    if said:
        blocks.append(text_block(said))
    whole = choice.finish_reason in _DONE
    return blocks + [tool_use(call, _given(call, whole=whole)) for call in calls_of(choice.message)]


def stop_of_choice(choice: Choice) -> Json:
    """The `stop_reason` and `stop_sequence` of a whole choice."""
    refuses = bool(choice.message.get("refusal"))
    calls = bool(calls_of(choice.message))
    return stop_of(choice.finish_reason, choice.extra.get("stop_reason"), calls=calls, refuses=refuses)


def said_of(part: Json) -> str:
    """The text of a message or delta; a refusal is text here, told apart by the stop reason."""
    content = part.get("content")
    if isinstance(content, list):
        texts = (inner.get("text") for inner in content if isinstance(inner, dict))
        content = "".join(text for text in texts if isinstance(text, str))
    return text_or_empty(content) + text_or_empty(part.get("refusal"))


def calls_of(message: Json) -> list[Json]:
    """The function calls of a message."""
    return [call for call in message.get("tool_calls") or () if isinstance(call.get("function"), dict)]


def _given(call: Json, *, whole: bool) -> Json:
    """The parsed arguments; those that the token limit cut off are left out, as half of them may mislead."""
    try:
        given = orjson.loads(text_or_empty(call["function"].get("arguments")) or "{}")
    except orjson.JSONDecodeError:
        given = None
    if isinstance(given, dict):
        return given
    if whole:
        raise UpstreamError("protocol", 502, _BROKEN_CALL)
    return {}


def text_block(said: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": said, "citations": None}


def tool_use(call: Json, given: Json) -> Json:
    """The block of a call with this input."""
    name = text_or_empty(call["function"].get("name"))
    return {"type": "tool_use", "id": text_or_empty(call.get("id")), "name": name, "input": given}


_BROKEN_CALL = {
    "error": {
        "message": "The model called a tool with arguments that are not a JSON object.",
        "type": "server_error",
        "param": None,
        "code": "upstream_protocol",
    }
}


def thoughts_of(message: Json) -> list[Json]:
    """The thinking blocks of a message: those that came as such, else its reasoning as one without a signature."""
    listed = message.get("thinking_blocks")
    if isinstance(listed, list) and listed:
        return _merged([block for block in listed if isinstance(block, dict)])
    text = reasoning_of(message)
    return [{"type": "thinking", "thinking": text, "signature": ""}] if text else []


def reasoning_of(part: Json) -> str:
    """The reasoning text of a message or delta."""
    return next((part[name] for name in REASONING if part.get(name) and isinstance(part[name], str)), "")


def _merged(blocks: list[Json]) -> list[Json]:
    """Blocks that streamed in pieces put together: a piece goes on the last block until that is signed."""
    merged: list[Json] = []
    for block in blocks:
        if block.get("type") == "redacted_thinking":
            merged.append({"type": "redacted_thinking", "data": text_or_empty(block.get("data"))})
            continue
        if not merged or merged[-1]["type"] != "thinking" or merged[-1]["signature"]:
            merged.append({"type": "thinking", "thinking": "", "signature": ""})
        merged[-1]["thinking"] += text_or_empty(block.get("thinking"))
        merged[-1]["signature"] = text_or_empty(block.get("signature"))
    return merged
