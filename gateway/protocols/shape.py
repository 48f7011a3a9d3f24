"""What an OpenAI answer must look like, and how its parts merge; pure.

Normal form: a message always has `role`, `content` and `refusal`; tool calls carry no `index` and are absent when
there are none.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from policies.types import Choice, Json

CALL_TEXTS = {"function": "arguments", "custom": "input"}
"""The part of a tool call that streams, by the key its kind is found under."""

ONCE = frozenset({"id", "type", "name"})
"""Fields of a call whose first value stands."""


class ProtocolError(ValueError):
    """What came is no answer in the OpenAI shape; the text says what is wrong and quotes none of it."""


def normal_message(message: Json) -> Json:
    """The message in normal form; a new object that shares its parts.

    Raises:
        ProtocolError: content or tool calls have no known shape.
    """
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise ProtocolError("content is neither text nor a list of parts")
    calls = message.get("tool_calls")
    normal = {"role": None, "content": content, "refusal": None, **message}
    normal["role"] = normal["role"] or "assistant"
    normal.pop("tool_calls", None)
    if calls:
        normal["tool_calls"] = [
            _without_index(as_object(call, "tool call")) for call in as_list(calls, "tool_calls")
        ]
    return normal


def _without_index(call: Json) -> Json:
    return {name: value for name, value in call.items() if name != "index"}


def check_indices(choices: Sequence[Choice]) -> None:
    """Passes choices that are numbered 0 to n-1, at least one."""
    if not choices:
        raise ProtocolError("the answer has no choices")
    if any(choice.index != at for at, choice in enumerate(choices)):
        raise ProtocolError("the indices of the choices are not 0 to n-1")


def merge_into(target: Json, delta: Json, texts: AbstractSet[str]) -> None:
    """Merges one delta of an object whose `texts` stream."""
    for name, value in delta.items():
        if name in texts:
            append_to(target, name, value)
        elif name in ONCE:
            target[name] = target.get(name) or value
        else:
            set_last(target, name, value)


def append_to(target: Json, name: str, value: Any) -> None:
    """Appends text to text and list to list; None leaves what is there."""
    known = target.get(name)
    if not isinstance(value, str | list | None):
        raise ProtocolError(f"{name} is neither text nor a list")
    if value is None or known is None:
        target[name] = list(value) if isinstance(value, list) else (known if value is None else value)
    elif isinstance(known, str) and isinstance(value, str):
        target[name] = known + value
    elif isinstance(known, list) and isinstance(value, list):
        known.extend(value)
    else:
        raise ProtocolError(f"{name} changes its type within the stream")


def set_last(target: Json, name: str, value: Any) -> None:
    """Keeps the last value that is not None."""
    if value is not None or name not in target:
        target[name] = value


def joined(name: str, parts: list[Any]) -> Any:
    """The whole of a text that came in parts; None when none came."""
    if not parts:
        return None
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)
    if all(isinstance(part, list) or not part for part in parts):
        return list(chain.from_iterable(parts))
    raise ProtocolError(f"{name} changes its type within the stream")


def inner_object(target: Json, name: str) -> Json:
    """The object under `name`, made when absent."""
    inner = target.get(name)
    if inner is None:
        inner = target[name] = {}
    return as_object(inner, name)


def as_object(value: Any, what: str) -> Json:
    """`value`, which must be an object."""
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not an object")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """`value`, which must be a list."""
    if not isinstance(value, list):
        raise ProtocolError(f"{what} is not a list")
    return value


def as_index(value: Any, what: str) -> int:
    """`value`, which must be a whole number from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProtocolError(f"a {what} has no index")
    return value


def text_or_empty(value: Any) -> str:
    """`value` when it is text."""
    return value if isinstance(value, str) else ""


def whole_or_zero(value: Any) -> int:
    """`value` as a whole number when it is a number."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0
