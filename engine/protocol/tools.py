"""Tools as a request offers them, and what it says about their use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.protocol.fields import bad_field, read_bool

MAX_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class ToolUse(Enum):
    """Whether the answer may or must call."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Tool:
    """One function.

    Attributes:
        shown: as the client wrote it, for the model's template.
        parameters: JSON schema of its arguments.
        strict: whether calls must follow that schema.
        index: of it in the request.
    """

    name: str
    shown: Mapping[str, Any]
    parameters: Mapping[str, Any]
    strict: bool
    index: int

    @property
    def field(self) -> str:
        """The request's field that holds the schema, for errors."""
        return f"tools[{self.index}].function.parameters"


@dataclass(frozen=True, slots=True)
class ToolWishes:
    """What a request says about tools.

    Attributes:
        offered: those that may be called; empty when none may.
        parallel: whether one answer may hold several calls.
    """

    offered: tuple[Tool, ...] = ()
    use: ToolUse = ToolUse.NONE
    parallel: bool = True


NO_TOOLS = ToolWishes()


def read_tools(body: Mapping[str, Any]) -> ToolWishes:
    """Check `tools`, `tool_choice` and `parallel_tool_calls`.

    Raises:
        RequestError: 400, naming the field.
    """
    listed = body.get("tools") or []
    if not isinstance(listed, list) or len(listed) > MAX_TOOLS:
        raise bad_field("tools", f"must be a list of at most {MAX_TOOLS} tools")
    tools = tuple(_tool(index, tool) for index, tool in enumerate(listed))
    parallel = body.get("parallel_tool_calls") is None or read_bool(body, "parallel_tool_calls")
    return _chosen(body.get("tool_choice"), tools, parallel)


def _chosen(choice: Any, tools: tuple[Tool, ...], parallel: bool) -> ToolWishes:
    if choice == "none" or (choice in (None, "auto") and not tools):
        return NO_TOOLS
    if choice in (None, "auto"):
        return ToolWishes(tools, ToolUse.AUTO, parallel)
    if not tools:
        raise bad_field("tool_choice", "is only allowed when 'tools' are given")
    if choice == "required":
        return ToolWishes(tools, ToolUse.REQUIRED, parallel)
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if not isinstance(function, dict):
        raise bad_field("tool_choice", "must be 'none', 'auto', 'required' or name a function")
    named = tuple(tool for tool in tools if tool.name == function.get("name"))
    if not named:
        raise bad_field("tool_choice", "names a function that is not among 'tools'")
    return ToolWishes(named[:1], ToolUse.REQUIRED, parallel=False)


def _tool(index: int, tool: Any) -> Tool:
    where = f"tools[{index}]"
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
    if not isinstance(function, dict):
        raise bad_field(where, "must be of type 'function'")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad_field(f"{where}.function.name", "must be 1 to 64 letters, digits, underscores, dots or dashes")
    parameters = function.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, dict):
        raise bad_field(f"{where}.function.parameters", "must be a JSON schema")
    strict = read_bool(function, "strict")
    return Tool(name, tool, parameters, strict, index)
