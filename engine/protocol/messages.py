"""Chat messages from the wire, reduced to what a text template can show."""

from collections.abc import Mapping
from typing import Any

import orjson

from engine.errors import RequestError
from engine.protocol.fields import bad_field

_ROLES = ("developer", "system", "user", "assistant", "tool")
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}
_MAX_MESSAGES = 4096

Message = dict[str, Any]
"""`role` and `content`, where given `name` and `tool_call_id`, and `tool_calls` with their arguments as values."""


def read_messages(value: Any) -> tuple[Message, ...]:
    """Check messages and join their text parts.

    Raises:
        RequestError: they are malformed, or hold what this engine cannot show its model (images, audio).
    """
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_MESSAGES:
        raise bad_field("messages", f"must be a list of 1 to {_MAX_MESSAGES} messages")
    return tuple(_message(f"messages[{index}]", message) for index, message in enumerate(value))


def _message(where: str, message: Any) -> Message:
    if not isinstance(message, dict):
        raise bad_field(where, "must be an object")
    role = message.get("role")
    if role == "function" or message.get("function_call"):
        raise RequestError(400, "Use tools instead of functions.", code="unsupported_value", param=where)
    if role not in _ROLES:
        raise bad_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}")
    if message.get("audio") is not None:
        raise _unsupported_part(f"{where}.audio", "audio")
    found: Message = {"role": role, "content": _content(f"{where}.content", message)}
    for name in ("name", "tool_call_id"):
        if isinstance(message.get(name), str):
            found[name] = message[name]
    if message.get("tool_calls"):
        found["tool_calls"] = _tool_calls(f"{where}.tool_calls", message)
    return found


def text_field(part: Any) -> str | None:
    """Name the field that holds the text of a content part; None for what is no text."""
    kind = part.get("type") if isinstance(part, dict) else None
    return _TEXT_PARTS.get(kind) if isinstance(kind, str) else None


def _tool_calls(where: str, message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not isinstance(calls, list):
        raise bad_field(where, "must be a list, in a message of the assistant")
    return [_tool_call(f"{where}[{index}]", call) for index, call in enumerate(calls)]


def _tool_call(where: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise bad_field(where, "must have a function with a name and its arguments as a string")
    return {
        "id": call.get("id") if isinstance(call.get("id"), str) else "",
        "type": "function",
        "function": {"name": name, "arguments": _arguments(arguments)},
    }


def _arguments(text: str) -> Any:
    """Return the value templates print; what a model wrote and is not JSON stays as it is."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text


def _content(where: str, message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message["role"] == "assistant":
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else ""
    if not isinstance(content, list) or not content:
        raise bad_field(where, "must be a string or a list of parts")
    return "".join(_part(f"{where}[{index}]", part) for index, part in enumerate(content))


def _part(where: str, part: Any) -> str:
    field = text_field(part)
    if field is None:
        raise _unsupported_part(where, part.get("type") if isinstance(part, dict) else None)
    text = part.get(field)
    if not isinstance(text, str):
        raise bad_field(f"{where}.{field}", "must be a string")
    return text


def _unsupported_part(where: str, kind: Any) -> RequestError:
    message = f"This model reads text only; content of type {kind!r} is not supported."
    return RequestError(400, message, code="unsupported_value", param=where)
