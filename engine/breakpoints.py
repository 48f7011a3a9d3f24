"""Marks of a request as token positions of its prompt.

Each mark is found by rendering the conversation once more with something foreign at its place: up to where both
texts agree, the prompt does not depend on what comes after the mark. That holds whatever a template does with its
input: trim it, quote it, say it twice, or leave it out.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.errors import RequestError
from engine.kv.wishes import Breakpoint
from engine.protocol.prompt_cache import Mark, Where

Message = Mapping[str, Any]
Render = Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], str]
"""Messages and tools to the text of a prompt."""

_FOREIGN = "\uf8f7foreign\uf8f7"
"""Private-use characters around it: nothing that a prompt goes on with begins like this."""


def marked_chars(
    text: str, render: Render, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], mark: Mark
) -> int | None:
    """Characters of the prompt before a mark; None when the template does not show its place.

    Args:
        text: the prompt as rendered.
        render: renders it again; what it refuses then counts as not shown.
        messages: as rendered.
        tools: as rendered.
        mark: of these messages or tools.
    """
    for other_messages, other_tools in _with_foreign(messages, tools, mark):
        try:
            other = render(other_messages, other_tools)
        except RequestError:
            continue
        if other != text:
            return _common_chars(text, other)
    return None


def token_breakpoints(
    ends: Sequence[int], positions: Iterable[tuple[int, float]], minimum: int
) -> tuple[Breakpoint, ...]:
    """Character positions as breakpoints, ascending, the longest life where several meet.

    A token that reaches over a position is left out, as it would be another with other text behind.

    Args:
        ends: end of each token of the prompt, in characters.
        positions: characters and seconds.
        minimum: shorter prefixes are let pass.
    """
    kept: dict[int, float] = {}
    for chars, ttl_s in positions:
        tokens = bisect_right(ends, chars)
        if tokens >= minimum:
            kept[tokens] = max(ttl_s, kept.get(tokens, 0.0))
    return tuple(Breakpoint(tokens, ttl_s) for tokens, ttl_s in sorted(kept.items()))


def _with_foreign(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], mark: Mark
) -> Iterable[tuple[Sequence[Message], Sequence[Mapping[str, Any]]]]:
    """The conversation with something foreign at the mark; the first that shows is taken."""
    if mark.where is Where.TOOL:
        if mark.index < len(tools):
            yield messages, _replaced(tools, mark.index, _with_foreign_field(tools[mark.index]))
            yield messages, _replaced(tools, mark.index, _with_foreign_description(tools[mark.index]))
        return
    message = messages[mark.index]
    if mark.where is Where.CALL:
        calls = message.get("tool_calls") or ()
        if mark.inner < len(calls):
            changed = _replaced(calls, mark.inner, _with_foreign_argument(calls[mark.inner]))
            yield _replaced(messages, mark.index, {**message, "tool_calls": changed}), tools
        return
    content = message.get("content")
    if isinstance(content, str):
        content = content[: mark.inner] + _FOREIGN + content[mark.inner :]
        yield _replaced(messages, mark.index, {**message, "content": content}), tools


def _with_foreign_field(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**tool, "function": {**_function(tool), _FOREIGN: ""}}


def _with_foreign_description(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = _function(tool)
    return {**tool, "function": {**function, "description": f"{function.get('description') or ''}{_FOREIGN}"}}


def _with_foreign_argument(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = _function(call)
    given = function.get("arguments")
    changed = {**given, _FOREIGN: ""} if isinstance(given, dict) else f"{given or ''}{_FOREIGN}"
    return {**call, "function": {**function, "arguments": changed}}


def _function(item: Mapping[str, Any]) -> Mapping[str, Any]:
    function = item.get("function")
    return function if isinstance(function, dict) else {}


def _replaced(items: Sequence[Any], index: int, item: Any) -> list[Any]:
    return [*items[:index], item, *items[index + 1 :]]


def _common_chars(one: str, other: str) -> int:
    """Length of the longest common prefix; compares in C, halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
