"""What a request carries that may have been registered: digests of its instructions and of its tools' schemas.

Digests, not texts, are kept with an entry; so a registration also reaches entries that are older than itself. What
has placeholders cannot be told by a digest, and is matched against the texts when an entry is made.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from policies.types import Json

UNREGISTERED = "?"
"""The version under which an entry knows a registered name that its request gave in no registered version."""

MAX_PLACEHOLDERS = 100
MIN_LITERAL_CHARS = 20
_PRINT_BYTES = 16
_ROLES = frozenset({"system", "developer"})
_PLACEHOLDER = re.compile(r"\{\{[^{}]{0,200}\}\}")
_NOT_OF_A_TOOL = ("type", "cache_control", "eager_input_streaming")


class TextRefused(ValueError):  # noqa: N818  (a state)
    """A text cannot be recognised in requests."""


@dataclass(frozen=True, slots=True)
class Template:
    """A registered text with gaps.

    Attributes:
        segments: its literal parts, in order; the first begins the text and the last ends it.
        retired: whether the version was replaced or given up.
    """

    name: str
    version: str
    segments: tuple[str, ...]
    retired: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What a worker needs of a tenant's registrations when it makes an entry.

    Attributes:
        names: the registered versions by name.
    """

    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    templates: tuple[Template, ...] = ()


NOTHING_KNOWN = Known()


def prints_of(body: Json) -> tuple[bytes, ...]:
    """The digests of a neutral request: of each instruction, of its parts, and of each tool.

    Args:
        body: strictly parsed; not changed.
    """
    found = [text_print(text) for text in instructions(body)]
    for field_name in ("tools", "functions"):
        listed = body.get(field_name)
        if isinstance(listed, list):
            found.extend(tool_print(tool) for tool in listed if isinstance(tool, dict))
    return tuple(dict.fromkeys(found))


def instructions(body: Json) -> Iterator[str]:
    """The texts of system and developer messages; one in several parts also part by part."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") in _ROLES:
            yield from (text for text in _texts(message.get("content")) if text)


def text_print(text: str) -> bytes:
    """The digest of an instruction; blanks around it and the kind of its line ends do not matter."""
    return _digest(b"text\0", plain(text).encode("utf-8", "surrogatepass"))


def parts_text(content: object) -> str:
    """The whole text of a message's content, given as a string or as parts."""
    texts = list(_texts(content))
    return texts[-1] if texts else ""


def tool_print(tool: Json) -> bytes:
    """The digest of a tool, as OpenAI's or Anthropic's clients send it, or of a bare function."""
    function = tool.get("function")
    bare = dict(function if isinstance(function, dict) else tool)
    for name in _NOT_OF_A_TOOL:
        bare.pop(name, None)
    if "input_schema" in bare:
        bare["parameters"] = bare.pop("input_schema")
    return _digest(b"tool\0", orjson.dumps(bare, option=orjson.OPT_SORT_KEYS))


def plain(text: str) -> str:
    """A text without what does not matter in recognising it."""
    return (text.replace("\r\n", "\n") if "\r" in text else text).strip()


def segments_of(text: str) -> tuple[str, ...]:
    """The literal parts of a text with `{{placeholders}}`; one part when there is none.

    Raises:
        TextRefused: too many placeholders, or too little between them to be recognised by.
    """
    found = tuple(_PLACEHOLDER.split(plain(text)))
    if len(found) - 1 > MAX_PLACEHOLDERS:
        raise TextRefused(f"at most {MAX_PLACEHOLDERS} placeholders")
    if len(found) > 1 and sum(len(part.strip()) for part in found) < MIN_LITERAL_CHARS:
        raise TextRefused(
            f"a text with placeholders needs {MIN_LITERAL_CHARS} other characters to be recognised by"
        )
    if not any(found):
        raise TextRefused("an empty text cannot be recognised")
    return found


def matches(segments: tuple[str, ...], text: str) -> bool:
    """Whether a text is the template with its gaps filled, by anything; in time linear in the text."""
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for segment in segments[1:-1]:
        at = text.find(segment, at, end)
        if at < 0:
            return False
        at += len(segment)
    return True


def recognised(known: Known, body: Json, versions: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The versions that an entry is made of: those its request names, and what is recognised in it.

    A registered name in another version than a registered one is also known as UNREGISTERED, so that what happens
    to the name reaches it.

    Args:
        known: as of when the model was asked.
        body: the neutral request.
        versions: those that the route and the request name.
    """
    if known is NOTHING_KNOWN:
        return versions
    found = [
        (name, UNREGISTERED)
        for name, version in versions
        if name in known.names and version not in known.names[name]
    ]
    if known.templates:
        found.extend(_matching(known.templates, [plain(text) for text in instructions(body)]))
    return tuple(dict.fromkeys((*versions, *found))) if found else versions


def _matching(templates: Iterable[Template], texts: list[str]) -> list[tuple[str, str]]:
    """A retired version only where no live one of its name matches: the text has stayed and is the other's now."""
    found = [one for one in templates if any(matches(one.segments, text) for text in texts)]
    alive = {one.name for one in found if not one.retired}
    return [(one.name, one.version) for one in found if not one.retired or one.name not in alive]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        yield from texts
        if len(texts) > 1:
            yield "\n".join(texts)


def _digest(purpose: bytes, value: bytes) -> bytes:
    return hashlib.sha256(purpose + value).digest()[:_PRINT_BYTES]
