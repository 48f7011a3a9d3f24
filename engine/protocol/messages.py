"""Chat messages from the wire, reduced to what a text template can show."""

from collections.abc import Mapping
from typing import Any

from engine.errors import RequestError
from engine.protocol.fields import bad_field

_ROLES = ("developer", "system", "user", "assistant")
_TOOL_ROLES = ("tool", "function")
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}
_MAX_MESSAGES = 4096

Message = dict[str, str]


def read_messages(value: Any) -> tuple[Message, ...]:
    """Check messages and join their text parts.

    Raises:
        RequestError: they are malformed, or hold what this engine cannot show its model (tools, images, audio).
    """
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_MESSAGES:
        raise bad_field("messages", f"must be a list of 1 to {_MAX_MESSAGES} messages")
    return tuple(_message(f"messages[{index}]", message) for index, message in enumerate(value))


def _message(where: str, message: Any) -> Message:
    if not isinstance(message, dict):
        raise bad_field(where, "must be an object")
    role = message.get("role")
    if role in _TOOL_ROLES or message.get("tool_calls") or message.get("function_call"):
        raise RequestError(400, "This model does not support tools.", code="unsupported_value", param=where)
    if role not in _ROLES:
        raise bad_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}")
    if message.get("audio") is not None:
        raise _unsupported_part(f"{where}.audio", "audio")
    found = {"role": str(role), "content": _content(f"{where}.content", message)}
    if isinstance(message.get("name"), str):
        found["name"] = message["name"]
    return found


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
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _TEXT_PARTS:
        raise _unsupported_part(where, kind)
    text = part.get(_TEXT_PARTS[kind])
    if not isinstance(text, str):
        raise bad_field(f"{where}.{_TEXT_PARTS[kind]}", "must be a string")
    return text


def _unsupported_part(where: str, kind: Any) -> RequestError:
    message = f"This model reads text only; content of type {kind!r} is not supported."
    return RequestError(400, message, code="unsupported_value", param=where)
