"""Anthropic's `cache_control` marks, lifted out of the neutral body so that no key can see them; pure."""

from typing import Any

from gateway.protocols.anthropic_blocks import MARK, joined_parts, read_mark, refuse
from policies.types import CacheMark, Json

MOST_MARKS = 4
"""The automatic mark counts as one."""


def lift_marks(body: Json, automatic: Any) -> tuple[CacheMark, ...]:
    """Takes the marks that the readers left in a neutral body out of it; the body, the caller's own, is changed.

    Afterwards the body is what it would be without them: one lone text is a string again.

    Args:
        body: neutral `messages`, and `tools` where there are any.
        automatic: the request's own `cache_control`, which stands for a mark on its last block.

    Returns:
        The marks in the order of the prompt.

    Raises:
        ApiError: 400 for a bad mark, or more than MOST_MARKS.
    """
    marks = [
        CacheMark(("tools", at), ttl_s)
        for at, tool in enumerate(body.get("tools", ()))
        if (ttl_s := tool.pop(MARK, None))
    ]
    for at, message in enumerate(body["messages"]):
        marks += _lift_message(message, ("messages", at))
    ttl_s = read_mark(automatic, "cache_control")
    if ttl_s is not None:
        place = ("messages", len(body["messages"]) - 1, *_last_block(body["messages"][-1]))
        if not marks or marks[-1].place != place:
            marks.append(CacheMark(place, ttl_s))
    if len(marks) > MOST_MARKS:
        raise refuse("cache_control", f"may mark {MOST_MARKS} places at most; found {len(marks)}")
    return tuple(marks)


def _lift_message(message: Json, place: tuple[str | int, ...]) -> list[CacheMark]:
    marks: list[CacheMark] = []
    content = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(content):
            if ttl_s := part.pop(MARK, None):
                marks.append(CacheMark((*place, "content", at), ttl_s))
        if marks:
            message["content"] = joined_parts(content)
    for at, call in enumerate(message.get("tool_calls", ())):
        if ttl_s := call.pop(MARK, None):
            marks.append(CacheMark((*place, "tool_calls", at), ttl_s))
    if ttl_s := message.pop(MARK, None):
        marks.append(CacheMark((*place, *_last_block(message)), ttl_s))
    return marks


def _last_block(message: Json) -> tuple[str, int]:
    if message.get("tool_calls"):
        return "tool_calls", len(message["tool_calls"]) - 1
    content = message.get("content")
    return "content", len(content) - 1 if isinstance(content, list) else 0
