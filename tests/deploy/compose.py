"""docker-compose.yml as a test reads it: merged, its variables filled in, beside the Dockerfile it builds from."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def load(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The whole file, each `${NAME:-default}` replaced in its strings, as compose does it."""
    loaded: dict[str, Any] = _filled(yaml.safe_load(FILE.read_text("utf-8")), environment or {})
    return loaded


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(one, given) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, given) for one in value]
    if not isinstance(value, str):
        return value
    filled = _VARIABLE.sub(lambda found: given.get(found[1]) or found[2], value)
    assert "$" not in filled, f"{value!r} has no default: the stack would not start without it"
    return filled


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the Dockerfile.

    Attributes:
        base: what it is made from: an image, or an earlier stage.
        lines: its instructions, each on one line.
    """

    name: str
    base: str
    lines: tuple[tuple[str, str], ...]

    def last(self, instruction: str) -> str | None:
        """The argument of the last such instruction."""
        return next((rest for word, rest in reversed(self.lines) if word == instruction), None)

    def command(self, instruction: str) -> list[str]:
        """The last such instruction in its JSON form."""
        told = self.last(instruction)
        assert told is not None, f"{self.name} has no {instruction}"
        words: list[str] = json.loads(told)
        return words


def stages() -> dict[str, Stage]:
    """The Dockerfile's stages by name."""
    raw = DOCKERFILE.read_text("utf-8")
    code = "\n".join(line for line in raw.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", code)
    found: dict[str, Stage] = {}
    for block in re.split(r"^FROM ", joined, flags=re.MULTILINE)[1:]:
        head, *rest = block.splitlines()
        base, _, name = head.partition(" AS ")
        lines = tuple(
            (word, argument.strip()) for word, _, argument in (line.partition(" ") for line in rest) if word
        )
        found[name.strip()] = Stage(name.strip(), base.strip(), lines)
    return found


def whole(name: str) -> list[Stage]:
    """A stage and those it is made from, innermost first."""
    known = stages()
    chain = [known[name]]
    while chain[0].base in known:
        chain.insert(0, known[chain[0].base])
    return chain
