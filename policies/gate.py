"""The write gate: which answers may be stored. Only finished, valid, allowed ones; every refusal has a reason."""

from typing import Any

import orjson

from policies.refusal import looks_like_refusal
from policies.types import ChatResponse, Choice, Json

FINISHED = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons of an answer that ended because the model was done."""


def refuse_write(response: ChatResponse, asked: Json) -> str | None:
    """Why this answer must not be stored, or None when it may.

    Args:
        response: the whole answer, after its last byte.
        asked: the request's neutral body, for what it demanded of the answer.
    """
    wanted = asked.get("n")
    if len(response.choices) != (wanted if type(wanted) is int else 1):
        return "choices"
    for position, choice in enumerate(response.choices):
        if choice.index != position:
            return "choices"
        reason = _refuse_choice(choice) or _unlike_asked(choice, asked)
        if reason is not None:
            return reason
    return None


def _refuse_choice(choice: Choice) -> str | None:
    if choice.finish_reason is None:
        return "unfinished"
    if choice.finish_reason not in FINISHED:
        known = choice.finish_reason in ("length", "content_filter")
        return choice.finish_reason if known else "finish_reason"
    message = choice.message
    if message.get("refusal"):
        return "refusal"
    if message.get("audio"):
        return "expiring"
    if choice.finish_reason == "tool_calls" and not message.get("tool_calls"):
        return "tool_calls"
    if choice.finish_reason == "function_call" and not message.get("function_call"):
        return "tool_calls"
    calls = _calls(message)
    if calls is None or not all(_is_call(call) for call in calls):
        return "tool_arguments"
    return _refuse_text(message.get("content"), bool(calls))


def _refuse_text(content: Any, has_calls: bool) -> str | None:
    if content is None or content == "":
        return None if has_calls else "empty"
    if not isinstance(content, str):
        return "content"
    if not content.strip() and not has_calls:
        return "empty"
    return "refusal" if looks_like_refusal(content) else None


def _calls(message: Json) -> list[Any] | None:
    """The function parts of all calls, or None when the list itself is broken."""
    calls: list[Any] = []
    if message.get("function_call") is not None:
        calls.append(message["function_call"])
    listed = message.get("tool_calls")
    if listed is None:
        return calls
    if not isinstance(listed, list):
        return None
    for call in listed:
        if not isinstance(call, dict) or not isinstance(call.get("id"), str) or not call["id"]:
            return None
        kind = call.get("type", "function")
        if kind == "function":
            calls.append(call.get("function"))
        elif not isinstance(kind, str) or not isinstance(call.get(kind), dict):
            return None
        else:
            calls.append({"name": kind, "arguments": "{}"})
    return calls


def _is_call(call: Any) -> bool:
    """Whether a function call has a name, and arguments that are a JSON object."""
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
        return False
    arguments = call.get("arguments")
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(orjson.loads(arguments or "{}"), dict)
    except orjson.JSONDecodeError:
        return False


def _unlike_asked(choice: Choice, asked: Json) -> str | None:
    """A request for JSON that got something else; a schema itself is not checked here."""
    wanted = asked.get("response_format")
    content = choice.message.get("content")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_object", "json_schema") or not content:
        return None
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return "invalid_json"
    return None if isinstance(value, dict) or wanted["type"] == "json_schema" else "invalid_json"
