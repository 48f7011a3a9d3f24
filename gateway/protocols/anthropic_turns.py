"""Anthropic `system` and `messages` to neutral messages; pure.

The order of turns is kept, and inside a user turn the order of tool results and other blocks. Inside an assistant
turn, what the neutral message cannot say is only how thinking, text and tool calls were interleaved.
"""

from typing import Any

from gateway.protocols.anthropic_blocks import (
    joined_parts,
    read_blocks,
    read_call,
    read_part,
    read_result,
    read_thinking,
    refuse,
    rest_of,
    with_rest,
)
from policies.types import Json

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


def read_system(system: Any) -> list[Json]:
    """The system prompt as at most one message."""
    if system is None:
        return []
    parts = [_system_part(block, f"system[{at}]") for at, block in enumerate(read_blocks(system, "system"))]
    return [{"role": "system", "content": joined_parts(parts)}] if parts else []


def _system_part(block: Json, where: str) -> Json:
    if block["type"] != "text":
        raise refuse(f"{where}.type", "must be text")
    return read_part(block, where)


def read_turns(messages: Any, *, cites: bool) -> list[Json]:
    """The turns as neutral messages.

    Args:
        messages: as the client sent them.
        cites: whether text in a user turn may carry citations.

    Raises:
        ApiError: 400 that names the place.
    """
    if not isinstance(messages, list) or not messages:
        raise refuse("messages", "must be a list of at least one message")
    neutral: list[Json] = []
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        role = message.get("role") if isinstance(message, dict) else None
        reader = _ROLES.get(role) if isinstance(role, str) else None
        if reader is None:
            raise refuse(where, "must be an object whose `role` is user, assistant or system")
        blocks = read_blocks(message.get("content"), f"{where}.content")
        if role != "assistant" and not blocks:
            raise refuse(f"{where}.content", "must not be empty")
        if role == "user" and not cites:
            _check_citations(blocks, f"{where}.content")
        turn = reader(blocks, f"{where}.content")
        turn[0] = with_rest(turn[0], rest_of(message, "role", "content"), where)
        neutral += turn
    return neutral


def _check_citations(blocks: list[Json], where: str) -> None:
    for at, block in enumerate(blocks):
        if block["type"] == "text" and block.get("citations"):
            raise refuse(f"{where}[{at}].citations", "must be empty in a user turn since version 2026-10-21")


def _user_turn(blocks: list[Json], where: str) -> list[Json]:
    turn: list[Json] = []
    parts: list[Json] = []
    for at, block in enumerate(blocks):
        if block["type"] != "tool_result":
            parts.append(read_part(block, f"{where}[{at}]"))
            continue
        if parts:
            turn.append({"role": "user", "content": joined_parts(parts)})
            parts = []
        turn.append(read_result(block, f"{where}[{at}]"))
    if parts:
        turn.append({"role": "user", "content": joined_parts(parts)})
    return turn


def _assistant_turn(blocks: list[Json], where: str) -> list[Json]:
    thoughts: list[Json] = []
    parts: list[Json] = []
    calls: list[Json] = []
    for at, block in enumerate(blocks):
        place = f"{where}[{at}]"
        if block["type"] in _THOUGHTS:
            thoughts.append(read_thinking(block, place))
        elif block["type"] == "tool_use":
            calls.append(read_call(block, place))
        else:
            parts.append(read_part(block, place))
    content = joined_parts(parts) if parts else (None if calls or thoughts else "")
    message: Json = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["thinking_blocks"] = thoughts
    return [message]


def _system_turn(blocks: list[Json], where: str) -> list[Json]:
    parts = [_system_part(block, f"{where}[{at}]") for at, block in enumerate(blocks)]
    return [{"role": "system", "content": joined_parts(parts)}]


_ROLES = {"user": _user_turn, "assistant": _assistant_turn, "system": _system_turn}
