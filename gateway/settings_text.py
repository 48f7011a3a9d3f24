"""Text from the environment, or from a file it names, as settings want it and back; what an unknown name meant."""

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, SecretStr

from gateway.errors import SettingsError


def parse_text(kind: Any, text: str, name: str) -> Any:
    """The text of one variable, split when its setting is a list or a table.

    Lists are JSON or `a,b`; tables are JSON or `a=1,b=2`. Everything else stays text, which validation reads.

    Args:
        kind: the setting's annotation; None when it is unknown.
        text: the variable's value.
        name: the variable's name, for the error.

    Raises:
        SettingsError: it begins like JSON and is none.
    """
    kind = _bare(kind)
    listed, tabled = _is_list(kind), _is_table(kind)
    if not (listed or tabled):
        return text
    stripped = text.strip()
    if stripped.startswith(("[", "{")):
        try:
            return json.loads(stripped)
        except ValueError as error:
            raise SettingsError(f"{name} is not valid JSON: {error}") from None
    parts = [part.strip() for part in stripped.split(",") if part.strip()]
    if listed:
        return parts
    pairs = [part.partition("=") for part in parts]
    if not all(separator for _, separator, _ in pairs):
        raise SettingsError(f"{name} is a table: give JSON, or name=value pairs with commas between")
    return {key.strip(): value.strip() for key, _, value in pairs}


def kind_at(model: type[BaseModel], path: Sequence[str]) -> Any:
    """The annotation of the setting at a path, or None where there is no such setting."""
    kind: Any = model
    for part in path:
        kind = _bare(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(part)
            kind = field.annotation if field else None
        elif _is_table(kind):
            kind = get_args(kind)[1]
        else:
            return None
    return kind


def is_secret(kind: Any) -> bool:
    """Whether a setting of this annotation is masked, and so may be given in a file."""
    return _bare(kind) is SecretStr


def secret_in(path: Path, name: str) -> str:
    """The text of a file without the white space around it.

    Raises:
        SettingsError: it cannot be read, or holds nothing; `name`, the variable, is blamed.
    """
    try:
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{name}: {path} is not text") from None
    if not text:
        raise SettingsError(f"{name}: {path} is empty")
    return text


def suggestion(model: type[BaseModel], path: Sequence[str]) -> str | None:
    """The name that the last part of an unknown path most likely meant, or None."""
    kind = _bare(kind_at(model, [part for part in path[:-1] if not part.isdigit()]))
    if _is_list(kind):
        kind = _bare(get_args(kind)[0])
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return None
    close = difflib.get_close_matches(path[-1], kind.model_fields, n=1)
    return close[0] if close else None


def put(tree: dict[str, Any], path: Sequence[str], value: Any, name: str) -> None:
    """Sets the value at a path, making tables on the way.

    Raises:
        SettingsError: something on the way is no table; `name` is blamed.
    """
    node = tree
    for part in path[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise SettingsError(f"{name}: {part} is not a table")
    node[path[-1]] = value


def revealed(value: Any) -> Any:
    """The value as JSON can hold it, secrets in the clear."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: revealed(item) for key, item in value.items()}
    return [revealed(item) for item in value] if isinstance(value, tuple) else value


def _bare(kind: Any) -> Any:
    """Without Annotated and without `| None`."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    options = [option for option in get_args(kind) if option is not NoneType]
    if NoneType in get_args(kind) and len(options) == 1:
        return _bare(options[0])
    return kind


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _is_table(kind: Any) -> bool:
    return get_origin(kind) in {Mapping, dict} or (isinstance(kind, type) and issubclass(kind, BaseModel))
