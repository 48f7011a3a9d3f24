"""A prompt as its server reads it: parts in the order in which they are put before the model."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from policies.types import Json

_INSTRUCTIONS = frozenset({"system", "developer"})
_DIGEST_BYTES = 12


class Part(msgspec.Struct, frozen=True):
    """A piece of a prompt.

    Attributes:
        path: where it stands in the request, such as `messages[0].content`.
        room: `tools`, `system` or `turns`, in which order they are read.
        text: as the model reads it; JSON as the request writes it where it is no text.
        digest: of role and text.
    """

    path: str
    room: str
    text: str
    digest: bytes


def parts_of(body: Json) -> tuple[Part, ...]:
    """The parts of a chat body: tools first, then instructions, then turns."""
    messages = body.get("messages")
    listed = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    tools = body.get("tools")
    found = [
        _part(f"tools[{place}]", "tools", "", _written(tool))
        for place, tool in enumerate(tools if isinstance(tools, list) else [])
    ]
    for room in ("system", "turns"):
        for place, message in enumerate(listed):
            if (message.get("role") in _INSTRUCTIONS) is (room == "system"):
                found += _of_message(f"messages[{place}]", room, message)
    return tuple(found)


def _of_message(path: str, room: str, message: Json) -> Iterator[Part]:
    role, content = str(message.get("role")), message.get("content")
    if isinstance(content, list):
        for place, piece in enumerate(content):
            text = piece.get("text") if isinstance(piece, dict) else None
            yield _part(f"{path}.content[{place}]", room, role, text if isinstance(text, str) else _written(piece))
    elif content is not None:
        yield _part(f"{path}.content", room, role, content if isinstance(content, str) else _written(content))
    if message.get("tool_calls"):
        yield _part(f"{path}.tool_calls", room, role, _written(message["tool_calls"]))


def _written(value: Any) -> str:
    return orjson.dumps(value).decode()


def _part(path: str, room: str, role: str, text: str) -> Part:
    digest = hashlib.blake2b(f"{role}\n{text}".encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return Part(path, room, text, digest.digest())
