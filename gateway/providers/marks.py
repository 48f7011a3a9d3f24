"""Marks of prompt caching put back into a body, in the words of the upstream that gets it; pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.settings import MarkForm
from policies.types import CacheMark, Json

_PARTS = frozenset({"text", "image_url", "input_audio", "file"})
"""The kinds of parts that may carry OpenAI's breakpoint."""

_TTLS: Mapping[int, str] = {300: "5m", 3600: "1h"}


def with_marks(body: Json, marks: Sequence[CacheMark], form: MarkForm) -> Json:
    """The body with these marks in it; shares what it need not change with `body`.

    A text that is marked becomes a list of one part, as only parts can carry a mark.

    Args:
        body: neutral; not changed.
        marks: see CacheMark.
        form: `cache_control` on parts, calls and tools; `breakpoint`: OpenAI's, on parts alone, without the ttl,
            whose values are others there; `drop`: none.
    """
    if form == "drop":
        return body
    for mark in marks:
        named = _named(mark, form)
        if named is not None:
            body = _marked(body, mark.place, *named)
    return body


def _named(mark: CacheMark, form: MarkForm) -> tuple[str, Json] | None:
    if form == "cache_control":
        return "cache_control", {"type": "ephemeral", "ttl": _TTLS[mark.ttl_s]}
    return ("prompt_cache_breakpoint", {"mode": "explicit"}) if "content" in mark.place else None


def _marked(value: Any, place: Sequence[str | int], name: str, mark: Json) -> Any:
    """A copy of the containers along the place, its last one marked."""
    if not place:
        takes = name == "cache_control" or value.get("type") in _PARTS
        return {**value, name: mark} if takes else value
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        return [*value[:step], _marked(value[step], rest, name, mark), *value[step + 1 :]]
    inner = value[step]
    if step == "content" and not isinstance(inner, list):
        inner = [{"type": "text", "text": inner or ""}]
    return {**value, step: _marked(inner, rest, name, mark)}
