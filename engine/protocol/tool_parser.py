"""Answers to text and tool calls, as they stream; what is not a call after all comes out as text."""

import re
from dataclasses import dataclass
from enum import Enum

import orjson

from engine.protocol.tool_formats import ToolFormat

_STRING = r'"((?:[^"\\]|\\.)*)"'


@dataclass(frozen=True, slots=True)
class CallPart:
    """News of one call.

    Attributes:
        index: which call of the answer.
        name: set when the call begins, and then only.
        arguments: JSON text to add to what came before.
    """

    index: int
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a piece of answer adds."""

    content: str = ""
    calls: tuple[CallPart, ...] = ()


class _State(Enum):
    TEXT = "text"
    HEAD = "head"
    ARGUMENTS = "arguments"
    TAIL = "tail"
    ENDED = "ended"


class ToolParser:
    """Splits one answer. Its arguments stream as they come, so a model's broken JSON is passed on as it is.

    Args:
        spelling: of the model.
        parallel: whether more than one call counts; what follows the first is dropped otherwise.
    """

    def __init__(self, spelling: ToolFormat, parallel: bool) -> None:
        self._spelling = spelling
        self._parallel = parallel
        self._opening, self._closing = spelling.opening.strip(), spelling.closing.strip()
        self._head = re.compile(
            rf'\s*\{{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*{_STRING}\s*,\s*'
            r'"(?:arguments|parameters)"\s*:\s*(?=\{)'
        )
        self._state = _State.TEXT if self._opening else _State.HEAD
        self._rest = ""
        self._value = _JsonEnd()
        self.num_calls = 0

    def push(self, text: str) -> Parsed:
        """Take the next text; return what is certain by now."""
        self._rest += text
        content: list[str] = []
        calls: list[CallPart] = []
        before = None
        while before != (self._state, len(self._rest)):
            before = (self._state, len(self._rest))
            self._advance(content, calls)
        return Parsed("".join(content), tuple(calls))

    def finish(self) -> Parsed:
        """Return what was held back. Call once, at the end."""
        rest, self._rest = self._rest, ""
        if self._state is _State.HEAD:
            call = self._whole_call(rest)
            return Parsed(calls=(call,)) if call else Parsed(f"{self._opening}{rest}" if rest.strip() else "")
        if self._state is _State.TEXT and (rest.strip() or self.num_calls == 0):
            return Parsed(rest)
        return Parsed()

    def _advance(self, content: list[str], calls: list[CallPart]) -> None:
        if self._state is _State.TEXT:
            content.append(self._take_text())
        elif self._state is _State.HEAD:
            self._take_head(content, calls)
        elif self._state is _State.ARGUMENTS:
            count, ended = self._value.push(self._rest)
            if count:
                calls.append(CallPart(self.num_calls - 1, None, self._rest[:count]))
                self._rest = self._rest[count:]
            self._state = _State.TAIL if ended else self._state
        elif self._state is _State.TAIL:
            self._take_tail()
        else:
            self._rest = ""

    def _take_text(self) -> str:
        """Return text up to an opening, or to where one, or white space before one, may begin."""
        at = self._rest.find(self._opening) if self._opening else -1
        if at >= 0:
            said, self._rest = self._rest[:at].rstrip(), self._rest[at + len(self._opening) :]
            self._state = _State.HEAD
            return said
        held = next((n for n in range(len(self._opening) - 1, 0, -1) if self._rest.endswith(self._opening[:n])), 0)
        keep = len(self._rest[: len(self._rest) - held].rstrip()) if self._opening else len(self._rest)
        said, self._rest = self._rest[:keep], self._rest[keep:]
        return said

    def _take_head(self, content: list[str], calls: list[CallPart]) -> None:
        if self.num_calls and not self._opening:
            self._rest = self._rest.lstrip(self._spelling.between)
        match = self._head.match(self._rest)
        name = None if match is None else _unquoted(match[1])
        if match is not None and name is not None:
            calls.append(CallPart(self.num_calls, name, ""))
            self.num_calls += 1
            self._rest = self._rest[match.end() :]
            self._value = _JsonEnd()
            self._state = _State.ARGUMENTS
        elif self._opening:
            body, closing, after = self._rest.partition(self._closing)
            if closing:
                self._rest = after
                self._state = _State.TEXT
                call = self._whole_call(body)
                if call:
                    calls.append(call)
                    self._state = self._after_call()
                else:
                    content.append(f"{self._opening}{body}{closing}")
        elif self.num_calls == 0 and not _may_be_call(self._rest):
            self._state = _State.TEXT

    def _take_tail(self) -> None:
        ending = f"}}{self._closing}" if not self._closing else self._closing
        _, found, after = self._rest.partition(ending)
        if found:
            self._rest = after
            self._state = self._after_call()

    def _after_call(self) -> _State:
        if not self._parallel:
            return _State.ENDED
        return _State.TEXT if self._opening else _State.HEAD

    def _whole_call(self, body: str) -> CallPart | None:
        """Read a call that does not stream: its arguments come first, or as a string, or not at all."""
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return None
        if not self._opening and not value.keys() & {"arguments", "parameters"}:
            return None
        arguments = value.get("arguments", value.get("parameters", {}))
        try:
            text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        except orjson.JSONEncodeError:
            return None
        self.num_calls += 1
        return CallPart(self.num_calls - 1, value["name"], text)


class _JsonEnd:
    """Finds where a JSON object that comes in pieces ends."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def push(self, text: str) -> tuple[int, bool]:
        """Return how many characters belong to the object, and whether it has ended there."""
        for count, character in enumerate(text, 1):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return count, True
        return len(text), False


def _unquoted(name: str) -> str | None:
    """Read what stands between quotation marks; None when it is no JSON."""
    try:
        return str(orjson.loads(f'"{name}"'))
    except orjson.JSONDecodeError:
        return None


def _may_be_call(text: str) -> bool:
    squeezed = "".join(text[:128].split())
    starts = ('{"name":"', '{"type":"function"', '{"parameters":{', '{"arguments":{')
    return any(start.startswith(squeezed) or squeezed.startswith(start) for start in starts)
