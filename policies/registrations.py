"""What is said of a version when it is registered, read into what it is recognised by."""

from collections.abc import Iterable
from dataclasses import dataclass

from policies.dependencies import DependencyRefused, Ref, Version
from policies.fingerprints import TextRefused, segments_of, text_print, tool_print
from policies.types import Json

MOST_INSTRUCTIONS = 32
MOST_TOOLS = 256
MOST_MODELS = 32
MAX_INSTRUCTION_CHARS = 262_144


@dataclass(frozen=True, slots=True)
class Registered:
    """What is registered.

    Attributes:
        depends_on: `name` or `name@version` each.
        instructions: texts that requests carry as system or developer message, or as a part of one; `{{gaps}}` may
            be filled by anything.
        tools: as requests carry them.
        models: names by which the model is asked for.
        content: a digest, a date or the like of what cannot be recognised in a request.
    """

    name: str
    version: str
    kind: str
    depends_on: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    tools: tuple[Json, ...] = ()
    models: tuple[str, ...] = ()
    content: str = ""


def version_of(said: Registered) -> Version:
    """The version as the graph has it; texts without gaps, and tools, only as digests.

    Raises:
        DependencyRefused: invalid.
    """
    ref = Ref.parse(f"{said.name}@{said.version}")
    _at_most(MOST_INSTRUCTIONS, "instructions", said.instructions)
    _at_most(MOST_TOOLS, "tools", said.tools)
    _at_most(MOST_MODELS, "models", said.models)
    prints, templates = [tool_print(tool).hex() for tool in said.tools], []
    for text in said.instructions:
        if len(text) > MAX_INSTRUCTION_CHARS:
            raise DependencyRefused("invalid", f"an instruction has at most {MAX_INSTRUCTION_CHARS} characters")
        try:
            segments = segments_of(text)
        except TextRefused as refused:
            raise DependencyRefused("invalid", str(refused)) from None
        if len(segments) == 1:
            prints.append(text_print(text).hex())
        else:
            templates.append(segments)
    on = tuple(dict.fromkeys(Ref.parse(text) for text in said.depends_on))
    found = (on, _once(prints), _once(said.models), tuple(dict.fromkeys(templates)))
    return Version(ref.name, ref.version, said.kind, *found, said.content)


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))


def _at_most(most: int, what: str, listed: tuple[object, ...]) -> None:
    if len(listed) > most:
        raise DependencyRefused("invalid", f"at most {most} {what}")
