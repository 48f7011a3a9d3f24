"""What a request asks of the prompt cache, lifted out of its body: `cache_control` and OpenAI's fields.

Marks are taken out before anything else reads the body, so that none can end up in a prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from engine.protocol.fields import bad_field, read_str
from engine.protocol.messages import text_field

MOST_MARKS = 4
_MAX_KEY_CHARS = 1024
_CONTROL_TTLS_S = {"5m": 300, "1h": 3600}
_BREAKPOINT_TTLS_S = {"30m": 1800, "12h": 43200}
_DAY_S = 86400

Json = dict[str, Any]


class Where(Enum):
    """What a mark stands behind."""

    TOOL = "tool"
    TEXT = "text"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Mark:
    """Asks to keep the prompt up to a place.

    Attributes:
        index: of the tool, or of the message.
        inner: characters of the message's text, or index of its call; 0 for a tool.
        ttl_s: for how long after each use.
    """

    where: Where
    index: int
    inner: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class PromptCacheFields:
    """What a request asks of the prompt cache.

    Attributes:
        marks: in the order of the body, tools first.
        whole_ttl_s: keep the whole prompt for so long; None asks nothing.
    """

    marks: tuple[Mark, ...] = ()
    whole_ttl_s: int | None = None


NO_WISHES = PromptCacheFields()


def lift_prompt_cache(body: Mapping[str, Any]) -> tuple[Json, PromptCacheFields]:
    """The body without marks, and what they and the other fields of prompt caching ask for.

    `cache_control` may stand on content parts, messages, tool calls, tools and their functions, and at the top
    level for the whole prompt; OpenAI's breakpoints on content parts. Of OpenAI's the latest count, as there; of
    the others a fifth is refused, as at Anthropic.

    Raises:
        RequestError: 400 that names the field.
    """
    bare = dict(body)
    lifted = _Lifted()
    for name, lift in (("tools", lifted.tool), ("messages", lifted.message)):
        listed = body.get(name)
        if isinstance(listed, list):
            bare[name] = [
                lift(index, item) if isinstance(item, dict) else item for index, item in enumerate(listed)
            ]
    whole = lifted.control(bare.pop("cache_control", None), "cache_control")
    if len(lifted.controls) + (whole is not None) > MOST_MARKS:
        raise bad_field("cache_control", f"may mark at most {MOST_MARKS} places")
    kept = max(whole or 0, _openai_ttl_s(body)) or None
    room = MOST_MARKS - len(lifted.controls) - (kept is not None)
    latest = lifted.breakpoints[-room:] if room > 0 else []
    return bare, PromptCacheFields((*lifted.controls, *latest), kept)


class _Lifted:
    """The marks found so far."""

    def __init__(self) -> None:
        self.controls: list[Mark] = []
        self.breakpoints: list[Mark] = []

    def control(self, mark: Any, field: str) -> int | None:
        """The seconds of a `cache_control`; None when there is none."""
        if mark is None:
            return None
        kind, ttl = (mark.get("type"), mark.get("ttl")) if isinstance(mark, dict) else (None, None)
        if kind != "ephemeral":
            raise bad_field(field, "must be an object of type ephemeral")
        return _seconds(f"{field}.ttl", "5m" if ttl is None else ttl, _CONTROL_TTLS_S)

    def tool(self, index: int, tool: Json) -> Json:
        bare, field = dict(tool), f"tools[{index}]"
        self._add(bare, field, Mark(Where.TOOL, index, 0, 0))
        if isinstance(tool.get("function"), dict) and "cache_control" in tool["function"]:
            bare["function"] = dict(tool["function"])
            self._add(bare["function"], f"{field}.function", Mark(Where.TOOL, index, 0, 0))
        return bare

    def message(self, index: int, message: Json) -> Json:
        bare, field = dict(message), f"messages[{index}]"
        content, end = message.get("content"), 0
        if isinstance(content, str):
            end = len(content)
        elif isinstance(content, list):
            bare["content"] = parts = []
            for at, part in enumerate(content):
                end += _text_chars(part)
                parts.append(self._part(f"{field}.content[{at}]", part, Mark(Where.TEXT, index, end, 0)))
        calls = message.get("tool_calls") or ()
        if isinstance(calls, list):
            bare["tool_calls"] = [
                self._call(f"{field}.tool_calls[{at}]", call, Mark(Where.CALL, index, at, 0))
                for at, call in enumerate(calls)
            ]
        is_call = isinstance(calls, list) and len(calls) > 0
        last = Mark(Where.CALL, index, len(calls) - 1, 0) if is_call else Mark(Where.TEXT, index, end, 0)
        self._add(bare, field, last)
        return bare

    def _part(self, field: str, part: Any, mark: Mark) -> Any:
        if not isinstance(part, dict):
            return part
        bare = dict(part)
        self._add(bare, field, mark)
        stop = bare.pop("prompt_cache_breakpoint", None)
        if stop is not None:
            field = f"{field}.prompt_cache_breakpoint"
            if not isinstance(stop, dict) or stop.get("mode") != "explicit":
                raise bad_field(field, "must be an object of mode explicit")
            ttl = "30m" if stop.get("ttl") is None else stop["ttl"]
            ttl_s = _seconds(f"{field}.ttl", ttl, _BREAKPOINT_TTLS_S)
            self.breakpoints.append(replace(mark, ttl_s=ttl_s))
        return bare

    def _call(self, field: str, call: Any, mark: Mark) -> Any:
        if not isinstance(call, dict):
            return call
        bare = dict(call)
        self._add(bare, field, mark)
        return bare

    def _add(self, bare: Json, field: str, mark: Mark) -> None:
        ttl_s = self.control(bare.pop("cache_control", None), f"{field}.cache_control")
        if ttl_s is not None:
            self.controls.append(replace(mark, ttl_s=ttl_s))


def _openai_ttl_s(body: Mapping[str, Any]) -> int:
    """The seconds that OpenAI's fields ask to keep a whole prompt; 0 for none."""
    read_str(body, "prompt_cache_key", _MAX_KEY_CHARS)
    kept = body.get("prompt_cache_retention")
    if kept not in (None, "in_memory", "in-memory", "24h"):
        raise bad_field("prompt_cache_retention", "must be 'in_memory' or '24h'")
    options = body.get("prompt_cache_options")
    if options is None:
        options = {}
    if not isinstance(options, dict):
        raise bad_field("prompt_cache_options", "must be an object")
    mode, ttl = options.get("mode"), options.get("ttl")
    if mode not in (None, "implicit", "explicit"):
        raise bad_field("prompt_cache_options.mode", "must be 'implicit' or 'explicit'")
    ttl_s = 0 if ttl is None else _seconds("prompt_cache_options.ttl", ttl, _BREAKPOINT_TTLS_S)
    return 0 if mode == "explicit" else max(ttl_s, _DAY_S if kept == "24h" else 0)


def _seconds(field: str, ttl: Any, known: Mapping[str, int]) -> int:
    if not isinstance(ttl, str) or ttl not in known:
        raise bad_field(field, f"must be one of {', '.join(known)}")
    return known[ttl]


def _text_chars(part: Any) -> int:
    field = text_field(part)
    text = None if field is None else part.get(field)
    return len(text) if isinstance(text, str) else 0
