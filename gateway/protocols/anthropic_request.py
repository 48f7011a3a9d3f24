"""An Anthropic Messages request to a neutral one; pure.

What means the same in both protocols gives the same neutral body, so that both find one entry. Fields that are not
known are kept, keyed and forwarded; docs/anthropic.md lists the few that are left out or refused.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.errors import ApiError
from gateway.protocols.anthropic_blocks import refuse, rest_of, text_of, with_mark, with_rest
from gateway.protocols.anthropic_marks import lift_marks
from gateway.protocols.anthropic_turns import read_system, read_turns
from gateway.protocols.head import read_head
from policies.controls import strip_controls
from policies.types import ChatRequest, Json

OLD_VERSION, NEW_VERSION = "2023-06-01", "2026-10-21"
SAMPLING = ("temperature", "top_p", "top_k")
"""Removed by NEW_VERSION: any value is a 400."""

LEFT_OUT = frozenset({"cache_control", "service_tier"})
"""Fields that only say how the request shall be run; the first becomes a mark."""

_SHAPE = frozenset({"model", "stream", "stream_options", "messages", "system"})
_NOT_SERVED = {
    "container": "needs Anthropic's own containers",
    "mcp_servers": "needs tools that run on Anthropic's servers",
    "inference_geo": "cannot be promised for the models served here",
}
_TOOL_LEFT_OUT = ("type", "input_schema", "eager_input_streaming")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_request(body: Any, headers: Sequence[tuple[bytes, bytes]]) -> ChatRequest:
    """The neutral request of a strictly parsed body.

    Raises:
        ApiError: 400 that names the field.
    """
    body, model, stream = read_head(body)
    version = _version(headers)
    if body.get("max_tokens") is None:
        raise refuse("max_tokens", "is required: the most tokens to generate")
    translated: Json = {
        "messages": read_system(body.get("system"))
        + read_turns(body.get("messages"), cites=version == OLD_VERSION)
    }
    kept: Json = {}
    for name, value in strip_controls(body).items():
        if name in SAMPLING and version != OLD_VERSION and value is not None:
            raise refuse(name, f"was removed from the API in version {NEW_VERSION}")
        if name in _NOT_SERVED and value:
            raise refuse(name, f"is not supported: it {_NOT_SERVED[name]}")
        reader = _READERS.get(name)
        if reader is not None and value is not None:
            translated.update(reader(value))
        elif reader is None and name not in _SHAPE and name not in LEFT_OUT and name not in _NOT_SERVED:
            kept[name] = value
    twice = kept.keys() & translated.keys()
    if twice:
        raise refuse(min(twice), "says what another field of this protocol says too")
    if kept.get("n") not in (None, 1):
        raise refuse("n", "must be 1: this protocol has one answer")
    marks = lift_marks(translated, body.get("cache_control"))
    return ChatRequest(model, {**kept, **translated}, stream=stream, include_usage=stream, marks=marks)


def _version(headers: Sequence[tuple[bytes, bytes]]) -> str:
    named = next((value for name, value in headers if name == b"anthropic-version"), None)
    version = OLD_VERSION if named is None else named.decode("latin-1").strip()
    if version not in (OLD_VERSION, NEW_VERSION):
        raise ApiError(
            400, f"anthropic-version {version[:40]!r} is not known; send {NEW_VERSION} or {OLD_VERSION}."
        )
    return version


def _max_tokens(value: Any) -> Json:
    if type(value) is not int or value < 0:
        raise refuse("max_tokens", "must be a whole number from 0")
    return {"max_tokens": value}


def _stop_sequences(value: Any) -> Json:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise refuse("stop_sequences", "must be a list of strings")
    return {"stop": value} if value else {}


def _metadata(value: Any) -> Json:
    if not isinstance(value, dict):
        raise refuse("metadata", "must be an object")
    rest = rest_of(value, "user_id")
    neutral: Json = {"metadata": rest} if rest else {}
    if value.get("user_id") is not None:
        neutral["user"] = text_of(value, "user_id", "metadata")
    return neutral


def _tools(value: Any) -> Json:
    if not isinstance(value, list):
        raise refuse("tools", "must be a list")
    return {"tools": [_tool(tool, f"tools[{at}]") for at, tool in enumerate(value)]} if value else {}


def _tool(tool: Any, where: str) -> Json:
    if not isinstance(tool, dict):
        raise refuse(where, "must be an object")
    if tool.get("type") not in (None, "custom"):
        raise refuse(f"{where}.type", "must be custom: tools of Anthropic's own are not served here")
    if not isinstance(tool.get("input_schema"), dict):
        raise refuse(f"{where}.input_schema", "must be a JSON schema object")
    text_of(tool, "name", where)
    function = with_rest({"parameters": tool["input_schema"]}, rest_of(tool, *_TOOL_LEFT_OUT), where)
    return with_mark({"type": "function", "function": function}, tool, where)


def _tool_choice(value: Any) -> Json:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "tool":
        choice: Any = {"type": "function", "function": {"name": text_of(value, "name", "tool_choice")}}
    elif isinstance(kind, str) and kind in _CHOICES:
        choice = _CHOICES[kind]
    else:
        raise refuse("tool_choice", "must be an object of type auto, any, tool or none")
    single = value.get("disable_parallel_tool_use")
    if single is not None and not isinstance(single, bool):
        raise refuse("tool_choice.disable_parallel_tool_use", "must be true or false")
    unknown = rest_of(value, "type", "disable_parallel_tool_use", *(["name"] if kind == "tool" else []))
    if unknown:
        raise refuse(f"tool_choice.{min(unknown)}", "is not known")
    return {"tool_choice": choice} | ({"parallel_tool_calls": False} if single else {})


def _output_config(value: Any) -> Json:
    if not isinstance(value, dict):
        raise refuse("output_config", "must be an object")
    neutral: Json = {}
    if value.get("effort") is not None:
        neutral["reasoning_effort"] = text_of(value, "effort", "output_config")
    if value.get("format") is not None:
        neutral["response_format"] = _format(value["format"])
    rest = rest_of(value, "effort", "format")
    return neutral | ({"output_config": rest} if rest else {})


def _format(value: Any) -> Json:
    if not isinstance(value, dict) or value.get("type") != "json_schema":
        raise refuse("output_config.format", "must be an object of type json_schema")
    schema = value.get("schema")
    if not isinstance(schema, dict):
        raise refuse("output_config.format.schema", "must be a JSON schema object")
    named = {"name": "structured_output", "schema": schema, "strict": True}
    rest = rest_of(value, "type", "schema")
    return {"type": "json_schema", "json_schema": with_rest(named, rest, "output_config.format")}


_READERS: Mapping[str, Callable[[Any], Json]] = {
    "max_tokens": _max_tokens,
    "stop_sequences": _stop_sequences,
    "metadata": _metadata,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "output_config": _output_config,
}
"""Fields that the neutral body says in another way, each with what it becomes there."""
