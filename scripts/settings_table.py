"""Prints the table of settings in docs/configuration.md, from the settings' own types and docstrings."""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway.settings import Settings

_MEANING = re.compile(r"^        (\w+): (.*(?:\n            .*)*)", re.MULTILINE)


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What the class docstring says of each attribute."""
    return {name: " ".join(meaning.split()) for name, meaning in _MEANING.findall(model.__doc__ or "")}


def rows(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Setting, environment variable, default, meaning; tables after plain settings."""
    said = meanings(model)
    for name, field in model.model_fields.items():
        if _table(field) is None:
            where = (*path, name)
            yield ".".join(where), _variable(where), _default(field), said.get(name, "")
    for name, field in model.model_fields.items():
        table = _table(field)
        if table is not None:
            inner, mark = table
            yield from rows(inner, (*path, name, *mark))


def _table(field: FieldInfo) -> tuple[type[BaseModel], tuple[str, ...]] | None:
    kind = field.annotation
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return kind, ()
    last: Any = [part for part in get_args(kind) if part is not ...][-1:]
    if last and inspect.isclass(last[0]) and issubclass(last[0], BaseModel):
        return last[0], ("NAME",) if get_origin(kind) is Mapping else ("[]",)
    return None


def _variable(path: tuple[str, ...]) -> str:
    return "" if "[]" in path else f"`LAMINA_{'__'.join(path).upper()}`"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, (), {}, PydanticUndefined) or isinstance(value, SecretStr):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table() -> str:
    """The whole table in Markdown."""
    lines = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {env} | {default} | {meaning} |" for name, env, default, meaning in rows(Settings)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
