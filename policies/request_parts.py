"""What a request is made of, part by part, so that two requests can be told apart without keeping their texts."""

import hashlib
from collections.abc import Iterable, Mapping

import orjson

from policies.keys import Namespace, canonical_request, frame, namespace_parts
from policies.types import Json

_DIGEST_BYTES = 8
_INSTRUCTION_ROLES = frozenset({"system", "developer"})
_NAMELESS = frozenset({"format"})


def request_parts(body: Json, namespace: Namespace, ignored: Iterable[str] = ()) -> dict[str, bytes]:
    """A short digest per part: of the namespace, `system`, `history`, `question`, and each other keyed field.

    Two requests of one tenant have equal keys when all parts are equal; a part that differs is why they do not.

    Args:
        body: the neutral request; not changed.
        namespace: as for the exact key.
        ignored: as for `canonical_request`.
    """
    fields = orjson.loads(canonical_request(body, ignored))
    messages = fields.pop("messages", None)
    parts = {name: value for name, value in namespace_parts(namespace) if name not in _NAMELESS}
    for name, listed in _cut(messages if isinstance(messages, list) else []).items():
        parts[name] = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS)
    for name, value in fields.items():
        parts[f"field:{name}"] = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return {name: hashlib.sha256(frame(name, value)).digest()[:_DIGEST_BYTES] for name, value in parts.items()}


def differing_parts(stored: Mapping[str, bytes], asked: Mapping[str, bytes]) -> tuple[str, ...]:
    """The parts that differ or that only one has, by name."""
    return tuple(name for name in sorted(stored.keys() | asked.keys()) if stored.get(name) != asked.get(name))


def _cut(messages: list[Json]) -> dict[str, list[Json]]:
    """Instructions; the turns before the last; the last."""
    turns = [message for message in messages if message.get("role") not in _INSTRUCTION_ROLES]
    instructions = [message for message in messages if message.get("role") in _INSTRUCTION_ROLES]
    return {"system": instructions, "history": turns[:-1], "question": turns[-1:]}
