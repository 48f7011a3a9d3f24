"""How each header is read: ours, RFC 9111's, and those of products people come from; one line each in HEADERS."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

MAX_TAGS = 32
MAX_LABEL_CHARS = 256
_LABEL = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)|([^\s",]+)')
_ESCAPED = re.compile(r"\\(.)")
_DURATION = re.compile(r"([0-9]{1,10})(ms|s|m|h|d)?")
_DURATION_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCOPES = ("tenant", "user", "session", "conversation")
_TRUE = frozenset({"true", "1", "on", "yes"})
_FALSE = frozenset({"false", "0", "off", "no"})
_MODES = {
    "off": "off",
    "exact": "exact",
    "direct": "exact",
    "simple": "exact",
    "auto": None,
    "semantic": None,
}


class ControlError(ValueError):
    """A control cannot be understood; `name` is the header or field it came in."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


@dataclass(slots=True)
class Draft:
    """Controls while headers are read; ids wait for the scope that asks for them."""

    found: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    vendors: list[str] = field(default_factory=list)
    scope_kind: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    helicone_on: bool = False


def parse_duration_s(name: str, value: str) -> float:
    """Seconds of `3600`, `30s`, `5m`, `2h`, `1d`.

    Raises:
        ControlError: anything else.
    """
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ControlError(name, "give a duration such as 3600, 30s or 5m")
    return int(match[1]) * _DURATION_UNITS[match[2]]


def _cache_control(draft: Draft, _name: str, value: str) -> None:
    for directive in value.split(","):
        key, _, argument = directive.strip().partition("=")
        key = key.strip().lower()
        argument = argument.strip().strip('"')
        if key == "no-cache":
            draft.found["no_read"] = True
        elif key == "no-store":
            draft.found["no_write"] = True
        elif key == "only-if-cached":
            draft.found["only_if_cached"] = True
        elif key == "max-stale" and not argument:
            draft.found["max_stale_s"] = math.inf
        elif key in _SECONDS and argument.isascii() and argument.isdigit():
            draft.found[_SECONDS[key]] = float(argument[:10])


_SECONDS = {"max-age": "max_age_s", "min-fresh": "min_fresh_s", "max-stale": "max_stale_s"}


def _ttl(draft: Draft, name: str, value: str) -> None:
    draft.found["ttl_s"] = parse_duration_s(name, value)
    _mark_vendor(draft, name)


def _ttl_class(draft: Draft, name: str, value: str) -> None:
    draft.found["ttl_class"] = label(name, value)


def _mode(draft: Draft, name: str, value: str) -> None:
    mode = value.lower()
    if mode not in _MODES:
        raise ControlError(name, f"one of {', '.join(_MODES)}")
    draft.found["mode"] = _MODES[mode]


def _partition(draft: Draft, name: str, value: str) -> None:
    draft.found["partition"] = label(name, value)
    _mark_vendor(draft, name)


def _caller_key(draft: Draft, name: str, value: str) -> None:
    draft.found["caller_key"] = label(name, value)
    _mark_vendor(draft, name)


def _groups(draft: Draft, name: str, value: str) -> None:
    for quoted, bare in _LABEL.findall(value):
        draft.tags.append(label(name, bare or _ESCAPED.sub(r"\1", quoted)))


def _scope_kind(draft: Draft, name: str, value: str) -> None:
    if value.lower() not in _SCOPES:
        raise ControlError(name, f"one of {', '.join(_SCOPES)}")
    draft.scope_kind = value.lower()


def _scope_id(draft: Draft, name: str, value: str) -> None:
    draft.ids[name.removeprefix("x-lamina-")] = label(name, value)


def _versions(draft: Draft, name: str, value: str) -> None:
    pairs = []
    for part in value.split(","):
        key, equals, version = part.strip().partition("=")
        if not equals:
            raise ControlError(name, "give name=version pairs, such as prompt=v3, kb=7")
        pairs.append((label(name, key.strip()), label(name, version.strip().strip('"'))))
    if len(dict(pairs)) != len(pairs) or len(pairs) > MAX_TAGS:
        raise ControlError(name, f"each name once, at most {MAX_TAGS}")
    draft.found["versions"] = tuple(sorted(pairs))


def label(name: str, value: str) -> str:
    """A caller's word, kept within bounds.

    Raises:
        ControlError: empty, too long, or not printable.
    """
    if not value or len(value) > MAX_LABEL_CHARS or not value.isprintable():
        raise ControlError(name, f"1 to {MAX_LABEL_CHARS} printable characters")
    return value


def _sets(**found: bool) -> Callable[[Draft, str, str], None]:
    def read(draft: Draft, name: str, value: str) -> None:
        if value.lower() not in _FALSE:
            draft.found.update(found)
            _mark_vendor(draft, name)

    return read


def _openrouter(draft: Draft, _name: str, value: str) -> None:
    if value.lower() in _FALSE:
        draft.found.update(no_read=True, no_write=True)
    draft.vendors.append("openrouter")


def _helicone(draft: Draft, _name: str, value: str) -> None:
    if value.lower() in _TRUE:
        draft.helicone_on = True
    else:
        draft.found.update(no_read=True, no_write=True)
    draft.vendors.append("helicone")


def _op_cache(draft: Draft, _name: str, value: str) -> None:
    if value.lower() == "readonly":
        draft.found["no_write"] = True
    elif value.lower() == "writeonly":
        draft.found["no_read"] = True


def _portkey_config(draft: Draft, _name: str, value: str) -> None:
    draft.vendors.append("portkey")
    try:
        config = orjson.loads(value)
    except orjson.JSONDecodeError:
        return
    cache = config.get("cache") if isinstance(config, dict) else None
    if isinstance(cache, dict):
        if type(cache.get("max_age")) is int and cache["max_age"] >= 0:
            draft.found["max_age_s"] = float(cache["max_age"])
        if cache.get("mode") in ("simple", "semantic"):
            draft.found["mode"] = _MODES[cache["mode"]]


def _mark_vendor(draft: Draft, name: str) -> None:
    for prefix, vendor in _VENDORS:
        if name.startswith(prefix):
            draft.vendors.append(vendor)
            return


_VENDORS = (
    ("cf-", "cloudflare"),
    ("x-portkey-", "portkey"),
    ("helicone-", "helicone"),
    ("x-openrouter-", "openrouter"),
)
_BYPASS = _sets(no_read=True, no_write=True)
HEADERS: dict[bytes, Callable[[Draft, str, str], None]] = {
    b"cache-control": _cache_control,
    b"x-lamina-cache-ttl": _ttl,
    b"cf-aig-cache-ttl": _ttl,
    b"cf-cache-ttl": _ttl,
    b"x-openrouter-cache-ttl": _ttl,
    b"x-bf-cache-ttl": _ttl,
    b"x-lamina-cache-class": _ttl_class,
    b"x-lamina-cache-mode": _mode,
    b"x-bf-cache-type": _mode,
    b"x-lamina-cache-namespace": _partition,
    b"x-portkey-cache-namespace": _partition,
    b"helicone-cache-seed": _partition,
    b"x-bf-cache-key": _partition,
    b"x-lamina-cache-key": _caller_key,
    b"cf-aig-cache-key": _caller_key,
    b"x-lamina-cache-groups": _groups,
    b"surrogate-key": _groups,
    b"cache-tag": _groups,
    b"x-lamina-cache-scope": _scope_kind,
    b"x-lamina-user": _scope_id,
    b"x-lamina-session": _scope_id,
    b"x-lamina-conversation": _scope_id,
    b"x-lamina-versions": _versions,
    b"x-portkey-cache-force-refresh": _sets(no_read=True),
    b"x-openrouter-cache-clear": _sets(no_read=True),
    b"x-bf-cache-no-store": _sets(no_write=True),
    b"cf-aig-skip-cache": _BYPASS,
    b"cf-skip-cache": _BYPASS,
    b"x-higress-skip-ai-cache": _BYPASS,
    b"x-openrouter-cache": _openrouter,
    b"helicone-cache-enabled": _helicone,
    b"op-cache": _op_cache,
    b"x-portkey-config": _portkey_config,
}
