"""Anthropic content blocks to parts of neutral messages; pure.

A field that is null counts as absent. `cache_control` becomes a MARK, which `anthropic_marks` lifts out of the
body. Fields of a block that are not known are kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from gateway.errors import ApiError
from policies.types import Json

OPS_FIELDS = frozenset({"cache_control"})
"""Of blocks and tools: how to run the request, never what it says."""

MARK = "cache_control"
"""Under this name a neutral part, call, message or tool holds the seconds it asks to be kept, until lifted."""

_ERROR_MARK = "Error: "
_TTLS_S = {None: 300, "5m": 300, "1h": 3600}


def refuse(where: str, problem: str) -> ApiError:
    """A 400 that names the place."""
    return ApiError(400, f"`{where}` {problem}.", param=where)


def text_of(block: Json, name: str, where: str) -> str:
    """The block's field, which must be text."""
    value = block.get(name)
    if not isinstance(value, str):
        raise refuse(f"{where}.{name}", "must be a string")
    return value


def rest_of(block: Json, *known: str) -> Json:
    """The fields of a block besides these that say something."""
    return {
        name: value
        for name, value in block.items()
        if value is not None and name not in known and name not in OPS_FIELDS
    }


def with_rest(neutral: Json, rest: Json, where: str) -> Json:
    """The neutral object with the fields that have no translation beside its own.

    Raises:
        ApiError: 400 when such a field would take the place of a translated one.
    """
    if rest:
        for name in rest:
            if name in neutral:
                raise refuse(f"{where}.{name}", "is no field of this protocol")
        return neutral | rest
    return neutral


def read_mark(mark: Any, where: str) -> int | None:
    """The seconds that a `cache_control` asks for; None when there is none.

    Raises:
        ApiError: 400 for another type or ttl.
    """
    if mark is None:
        return None
    kind, ttl = (mark.get("type"), mark.get("ttl")) if isinstance(mark, dict) else (None, None)
    if kind != "ephemeral" or not isinstance(ttl, str | None) or ttl not in _TTLS_S:
        raise refuse(where, "must be an object of type ephemeral, with ttl 5m or 1h where it names one")
    return _TTLS_S[ttl]


def with_mark(neutral: Json, block: Json, where: str) -> Json:
    """The neutral object with the block's mark, if it has one."""
    ttl_s = read_mark(block.get(MARK), f"{where}.{MARK}")
    return neutral if ttl_s is None else {**neutral, MARK: ttl_s}


def read_blocks(content: Any, where: str) -> list[Json]:
    """The blocks of a list, each an object with a type; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise refuse(where, "must be a string or a list of content blocks")
    for position, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise refuse(f"{where}[{position}]", "must be an object with a `type`")
    return content


def read_part(block: Json, where: str) -> Json:
    """A text or image block as a part of a message.

    Raises:
        ApiError: 400; blocks of other kinds have no place in the protocol of the models served here.
    """
    reader = _PARTS.get(block["type"])
    if reader is None:
        known = ", ".join(["tool_use", "tool_result", "thinking", "redacted_thinking", *_PARTS])
        raise refuse(f"{where}.type", f"{block['type'][:60]!r} is not supported here; supported are {known}")
    return with_mark(reader(block, where), block, where)


def _text_part(block: Json, where: str) -> Json:
    rest = rest_of(block, "type", "text", *([] if block.get("citations") else ["citations"]))
    return with_rest({"type": "text", "text": text_of(block, "text", where)}, rest, where)


def _image_part(block: Json, where: str) -> Json:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or kind not in ("base64", "url"):
        raise refuse(f"{where}.source", "must be of type base64 or url")
    if kind == "url":
        url = text_of(source, "url", f"{where}.source")
    else:
        media_type = text_of(source, "media_type", f"{where}.source")
        url = f"data:{media_type};base64,{text_of(source, 'data', f'{where}.source')}"
    own = ("url",) if kind == "url" else ("media_type", "data")
    image = with_rest({"url": url}, rest_of(source, "type", *own), f"{where}.source")
    return with_rest({"type": "image_url", "image_url": image}, rest_of(block, "type", "source"), where)


_PARTS: Mapping[str, Callable[[Json, str], Json]] = {"text": _text_part, "image": _image_part}


def joined_parts(parts: list[Json]) -> str | list[Json]:
    """The content of a message: one plain text is a string, anything else the list."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        text: str = parts[0]["text"]
        return text
    return parts


def read_call(block: Json, where: str) -> Json:
    """A tool_use block as a tool call; the arguments are compact JSON, members in the order they came."""
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        raise refuse(f"{where}.input", "must be an object")
    direct = block.get("caller") == {"type": "direct"}
    rest = rest_of(block, "type", "id", "name", "input", *(["caller"] if direct else []))
    function = {"name": text_of(block, "name", where), "arguments": orjson.dumps(arguments).decode()}
    call = {"id": text_of(block, "id", where), "type": "function", "function": function}
    return with_mark(with_rest(call, rest, where), block, where)


def read_result(block: Json, where: str) -> Json:
    """A tool_result block as a tool message; a failed tool's text begins with "Error: ".

    A mark inside its content is one on the whole: nothing can be asked to be kept up to the middle of a result.
    """
    content = block.get("content")
    inner = f"{where}.content"
    blocks = [] if content is None else read_blocks(content, inner)
    parts = [read_part(part, f"{inner}[{position}]") for position, part in enumerate(blocks)]
    marks = [ttl_s for part in parts if (ttl_s := part.pop(MARK, None))]
    said = joined_parts(parts) if parts else ""
    failed = block.get("is_error")
    if failed is not None and not isinstance(failed, bool):
        raise refuse(f"{where}.is_error", "must be true or false")
    if failed:
        said = _ERROR_MARK + said if isinstance(said, str) else [{"type": "text", "text": _ERROR_MARK}, *said]
    rest = rest_of(block, "type", "tool_use_id", "content", "is_error")
    message = {"role": "tool", "tool_call_id": text_of(block, "tool_use_id", where), "content": said}
    if marks:
        message[MARK] = max(marks)
    return with_mark(with_rest(message, rest, where), block, where)


def read_thinking(block: Json, where: str) -> Json:
    """A thinking or redacted_thinking block of an earlier turn, byte for byte."""
    for name in ("data",) if block["type"] == "redacted_thinking" else ("thinking", "signature"):
        text_of(block, name, where)
    return rest_of(block)
