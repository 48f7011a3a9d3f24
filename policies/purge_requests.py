"""What an operator asks to purge, read into a row of the log; nothing that could match nothing is let through."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from policies.purge_scopes import number_of

ASKED_KINDS = ("entry", "tag", "tenant", "user", "session", "model", "version", "age", "route", "meaning")
"""What can be asked for. `entry` is the id that X-Lamina-Cache-Id shows, `tenant` everything of the tenant."""

_AGE = re.compile(r"([0-9]{1,10})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ID = re.compile(r"[0-9a-f]{64}")


class PurgeRefused(ValueError):  # noqa: N818  (a state)
    """What is asked could match nothing; `field` is at fault."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@dataclass(frozen=True, slots=True)
class Scope:
    """Kind and value as the log has them."""

    kind: str
    value: str


def read_scope(kind: str, value: str, now_s: float) -> Scope:
    """What the log says of a purge that is asked for.

    Args:
        kind: one of ASKED_KINDS, or `all` and `key` as the log calls a tenant and an entry; not `meaning`, whose
            members are to be found first.
        value: `entry`: 64 hexadecimal digits; `version`: `name=value`, `name=*` or `name<number`; `age`: a time
            such as `2026-11-30T08:00:00Z`, or how old at least, such as `30d`; else a name.
        now_s: seconds since the epoch.

    Raises:
        PurgeRefused: nothing could match.
    """
    kind = _LOGGED.get(kind, kind)
    if kind == "all":
        if value:
            raise PurgeRefused("value", "a purge of a whole tenant takes no value")
        return Scope("all", "")
    if not value:
        raise PurgeRefused("value", f"a purge by {kind} needs a value")
    if kind in _PLAIN:
        return Scope(kind, value)
    if kind not in _READ:
        raise PurgeRefused("kind", f"one of {', '.join(ASKED_KINDS)}")
    return _READ[kind](value, now_s)


def _key(value: str, _now_s: float) -> Scope:
    if not _ID.fullmatch(value.lower()):
        raise PurgeRefused("value", "an entry's id is the 64 hexadecimal digits of X-Lamina-Cache-Id")
    return Scope("key", value.lower())


def _version(value: str, _now_s: float) -> Scope:
    name, equals, version = value.partition("=")
    if equals and name and version and "<" not in name:
        return Scope("versions" if version == "*" else "version", value)
    name, below, bound = value.rpartition("<")
    if below and name and number_of(bound) is not None:
        return Scope("versions", value)
    raise PurgeRefused("value", "a version is name=value, name=* for any, or name<7 for those below a number")


def _age(value: str, now_s: float) -> Scope:
    match = _AGE.fullmatch(value.lower())
    before_s = now_s - int(match[1]) * _SECONDS[match[2]] if match else _time_s(value)
    if before_s > now_s:
        raise PurgeRefused("value", "this time is yet to come; a purge of the tenant takes all there is")
    return Scope("age", f"{before_s:.3f}")


def _time_s(value: str) -> float:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise PurgeRefused(
            "value", "an age is a time with its zone, as 2026-11-30T08:00:00Z, or 90s, 30m, 12h, 7d"
        )
    return time.timestamp()


_LOGGED = {"entry": "key", "tenant": "all"}
_PLAIN = frozenset({"tag", "model", "user", "session", "route"})
_READ: Mapping[str, Callable[[str, float], Scope]] = {"key": _key, "version": _version, "age": _age}


def groups_header(scopes: list[Scope]) -> str:
    """The field `Cache-Group-Invalidation` for purges by tag; empty when there is none (RFC 9875 §3).

    A tag that is no String of RFC 8941 (other than ASCII) is left out.
    """
    tags = dict.fromkeys(scope.value for scope in scopes if scope.kind == "tag")
    told = [tag for tag in tags if tag.isascii() and tag.isprintable()]
    return ", ".join('"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in told)
