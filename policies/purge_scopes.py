"""What a purge can name, and what of an entry answers to it: by tables of equal values and of bounds."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

PURGE_KINDS = (
    *("all", "tag", "key", "model", "user", "version"),
    *("session", "route", "age", "versions", "meaning", "print"),
)
"""Kinds of rows of the log. `versions` is every version of a name (`kb=*`) or those below a number (`kb<7`); `age`
is what was made before a time; `meaning` lists the keys that it takes; `print` is a text or tool that requests
carried, see policies.fingerprints."""

OF_PERSONS = frozenset({"all", "user", "session"})
LATE_S = 5.0
"""What was made later than this before a purge by meaning was not in the index yet when the purge looked."""

PurgeMode = Literal["hard", "soft"]
Number = tuple[int, ...]
_NUMBER = re.compile(r"[vV]?([0-9]{1,15}(?:\.[0-9]{1,15}){0,7})")
_PERSON_BYTES = 16
_DIGEST = re.compile(r"#[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Purge:
    """One row of the log, as far as judging needs it.

    Attributes:
        members: of a purge by meaning, the keys (hex) that it takes.
        at_s: of a purge by meaning, seconds since the epoch when it looked.
    """

    seq: int
    kind: str
    value: str
    mode: PurgeMode
    members: tuple[str, ...] = ()
    at_s: float = 0.0

    @property
    def of_persons(self) -> bool:
        """Whether it must leave nothing of somebody's words behind, wherever they were kept."""
        return self.mode == "hard" and (self.kind in OF_PERSONS or self.kind not in PURGE_KINDS)


@dataclass(frozen=True, slots=True)
class Made:
    """What an entry is made of, as far as a purge can name it.

    Attributes:
        models: every name of its model.
        whose: digests of the users and sessions that it was made for, see `person`.
        source_hex: the key of what it is a copy of.
        route: name of the route; empty in entries from before it was kept, which answer to any of `models`.
        created_s: seconds since the epoch.
        prints: digests of the instructions and tools in its request.
    """

    key_hex: str
    models: tuple[str, ...]
    whose: tuple[bytes, ...] = ()
    tags: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    source_hex: str = ""
    route: str = ""
    created_s: float = 0.0
    prints: tuple[bytes, ...] = ()

    def under(self, key_hex: str) -> "Made":
        """As it would be served under another key: a purge of that key names it too."""
        return replace(self, source_hex=key_hex)


@dataclass(frozen=True, slots=True)
class Named:
    """What one row names: equal values, or everything below bounds; each by its place in a table below."""

    values: tuple[tuple[str, str | bytes], ...] = ()
    bounds: tuple[tuple[str, str, "float | Number"], ...] = ()


def person(kind: str, id_: str) -> bytes:
    """The digest by which an entry knows that it was made for a user or a session."""
    return hashlib.sha256(f"lamina/{kind}:{id_}".encode("utf-8", "surrogatepass")).digest()[:_PERSON_BYTES]


def is_digest(value: str) -> bool:
    """Whether a purge's value is `#` and somebody's digest: what an erasure leaves of their id."""
    return _DIGEST.fullmatch(value) is not None


def number_of(version: str) -> Number | None:
    """A version as numbers, compared one by one: 1.9 is below 1.10, and 2 equals 2.0; None for other texts."""
    match = _NUMBER.fullmatch(version)
    if match is None:
        return None
    parts = [int(part) for part in match[1].split(".")]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def members_value(members: Iterable[bytes]) -> str:
    """The value of a purge by meaning: how many keys it takes, and a digest of them all."""
    unique = sorted(set(members))
    return f"{len(unique)}:{hashlib.sha256(b''.join(unique)).hexdigest()}"


def _keys(made: Made) -> Iterable[str]:
    return (made.key_hex, made.source_hex) if made.source_hex else (made.key_hex,)


VALUES: Mapping[str, Callable[[Made], Iterable[str | bytes]]] = {
    "all": lambda _: ("",),
    "key": _keys,
    "tag": lambda made: made.tags,
    "model": lambda made: made.models,
    "person": lambda made: made.whose,
    "route": lambda made: (made.route,) if made.route else made.models,
    "version": lambda made: [f"{name}={value}" for name, value in made.versions],
    "name": lambda made: [name for name, _ in made.versions],
    "print": lambda made: made.prints,
}
"""By kind of value, those that an entry answers to."""


def _numbers(made: Made) -> Iterable[tuple[str, Number]]:
    for name, value in made.versions:
        number = number_of(value)
        if number is not None:
            yield name, number


HEIGHTS: Mapping[str, Callable[[Made], Iterable[tuple[str, "float | Number"]]]] = {
    "age": lambda made: (("", made.created_s),),
    "late": lambda made: (("", -made.created_s),),
    "number": _numbers,
}
"""By kind of bound, (name, height) of an entry: it is named by a bound above its height."""


def named(purge: Purge) -> Named:
    """What a row names; everything, where this version cannot tell: a newer one may have written it."""
    if purge.kind in ("all", "key", "tag", "model", "route", "version"):
        return Named(((purge.kind, purge.value),))
    if purge.kind in ("user", "session"):
        return Named(tuple(("person", one) for one in _persons(purge.kind, purge.value)))
    told = _LESS_PLAIN[purge.kind](purge) if purge.kind in _LESS_PLAIN else None
    return _EVERYTHING if told is None else told


def _persons(kind: str, value: str) -> Iterable[bytes]:
    """Whom a value names: an id, or, after an erasure, `#` and a digest; both, where it could be either."""
    yield person(kind, value)
    if is_digest(value):
        yield bytes.fromhex(value[1:])


_EVERYTHING = Named((("all", ""),))


def _age(purge: Purge) -> Named | None:
    try:
        return Named(bounds=(("age", "", float(purge.value)),))
    except ValueError:
        return None


def _versions(purge: Purge) -> Named | None:
    if purge.value.endswith("=*"):
        return Named((("name", purge.value[:-2]),))
    name, below, text = purge.value.rpartition("<")
    number = number_of(text)
    return Named(bounds=(("number", name, number),)) if below and number is not None else None


def _meaning(purge: Purge) -> Named | None:
    """Its keys, and what was made while it looked."""
    if purge.value.partition(":")[0] != str(len(purge.members)):
        return None
    values = tuple(("key", key_hex) for key_hex in purge.members)
    return Named(values, (("late", "", LATE_S - purge.at_s),))


def _print(purge: Purge) -> Named | None:
    try:
        return Named((("print", bytes.fromhex(purge.value)),))
    except ValueError:
        return None


_LESS_PLAIN: Mapping[str, Callable[[Purge], Named | None]] = {
    "age": _age,
    "versions": _versions,
    "meaning": _meaning,
    "print": _print,
}
