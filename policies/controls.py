"""What a request asks of the cache: RFC 9111 directives, our own headers, and those of products people come from.

Header design: docs/cache-control.md. Sources: RFC 9111 §5.2.1, RFC 5861, RFC 9211.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from policies.keys import Scope
from policies.types import Json

MAX_TAGS = 32
MAX_LABEL_CHARS = 256
_LABEL = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s",]+)')
_DURATION = re.compile(r"(\d{1,10})(ms|s|m|h|d)?")
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


@dataclass(frozen=True, slots=True)
class Controls:
    """What one request asks of the cache; the default asks nothing.

    Attributes:
        no_read: do not serve a stored answer (RFC 9111 `no-cache`).
        no_write: do not store the answer (`no-store`).
        only_if_cached: never call a model; 504 on a miss.
        max_age_s, min_fresh_s: bounds on what is accepted.
        max_stale_s: accepted time past the entry's life; infinite for a bare `max-stale`.
        ttl_s: asked life of the stored entry, before policy clamps it.
        mode: `off`, `exact`, or None for the route's own.
        partition: a division inside the tenant.
        caller_key: replaces the request's body in the key.
        tags: for purging groups.
        scope: who shares the entry inside the tenant.
        versions: version names and values that become part of the key.
        vendors: products whose headers were used, so that their status header is mirrored.
    """

    no_read: bool = False
    no_write: bool = False
    only_if_cached: bool = False
    max_age_s: float | None = None
    min_fresh_s: float | None = None
    max_stale_s: float | None = None
    ttl_s: float | None = None
    mode: str | None = None
    partition: str = ""
    caller_key: str | None = None
    tags: tuple[str, ...] = ()
    scope: Scope = field(default_factory=Scope)
    versions: tuple[tuple[str, str], ...] = ()
    vendors: tuple[str, ...] = ()


NO_CONTROLS = Controls()


@dataclass(slots=True)
class _Draft:
    """Controls while headers are read; ids wait for the scope that asks for them."""

    found: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    vendors: list[str] = field(default_factory=list)
    scope_kind: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    helicone_on: bool = False


def read_controls(headers: Iterable[tuple[bytes, bytes]], body: Json) -> Controls:
    """The controls of a request.

    Args:
        headers: names in lower case, values as they came.
        body: strictly parsed; its `cache` object and `tensorzero::cache_options` are read, not removed.

    Raises:
        ControlError: a control of ours, or a duration, is not understood; RFC directives are ignored then.
    """
    draft: _Draft | None = None
    for name, value in headers:
        read = _HEADERS.get(name)
        if read is not None:
            draft = draft or _Draft()
            read(draft, name.decode("latin-1"), value.decode("latin-1").strip())
    if "cache" in body or "tensorzero::cache_options" in body:
        draft = draft or _Draft()
        _body_controls(draft, body)
    return NO_CONTROLS if draft is None else _finished(draft, body)


def strip_controls(body: Json) -> Json:
    """The body without the fields that are addressed to a cache; the same object when there are none."""
    if "cache" not in body and "tensorzero::cache_options" not in body:
        return body
    return {name: value for name, value in body.items() if name not in ("cache", "tensorzero::cache_options")}


def partitioning_only(controls: Controls) -> Controls:
    """What is left when an operator does not honour controls: only what narrows who shares an entry."""
    return Controls(
        partition=controls.partition,
        caller_key=controls.caller_key,
        scope=controls.scope,
        versions=controls.versions,
        tags=controls.tags,
    )


def _finished(draft: _Draft, body: Json) -> Controls:
    found = draft.found
    if draft.helicone_on and found.get("max_age_s") is not None:
        found["ttl_s"] = found.pop("max_age_s")
    if found.get("max_age_s") == 0:
        found["no_read"] = True
    if found.get("ttl_s") == 0:
        found["no_write"] = True
    if draft.scope_kind not in (None, "tenant"):
        found["scope"] = _scope(draft, body)
    tags = tuple(dict.fromkeys(draft.tags))
    if len(tags) > MAX_TAGS:
        raise ControlError("x-lamina-cache-groups", f"at most {MAX_TAGS} groups")
    return Controls(**found, tags=tags, vendors=tuple(dict.fromkeys(draft.vendors)))


def _scope(draft: _Draft, body: Json) -> Scope:
    kind = draft.scope_kind or "tenant"
    given = draft.ids.get(kind)
    if given is None and kind == "user":
        for name in ("safety_identifier", "user"):
            if isinstance(body.get(name), str):
                given = body[name]
                break
    if not given:
        raise ControlError(
            "x-lamina-cache-scope", f"scope {kind!r} needs x-lamina-{kind}" + _OR_FIELD.get(kind, "")
        )
    return Scope(kind, given)


_OR_FIELD = {"user": ", or `safety_identifier` or `user` in the body"}


def parse_duration_s(name: str, value: str) -> float:
    """Seconds of `3600`, `30s`, `5m`, `2h`, `1d`.

    Raises:
        ControlError: anything else.
    """
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ControlError(name, "give a duration such as 3600, 30s or 5m")
    return int(match[1]) * _DURATION_UNITS[match[2]]


def _cache_control(draft: _Draft, _name: str, value: str) -> None:
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


def _ttl(draft: _Draft, name: str, value: str) -> None:
    draft.found["ttl_s"] = parse_duration_s(name, value)
    _mark_vendor(draft, name)


def _mode(draft: _Draft, name: str, value: str) -> None:
    mode = value.lower()
    if mode not in _MODES:
        raise ControlError(name, f"one of {', '.join(_MODES)}")
    draft.found["mode"] = _MODES[mode]


def _partition(draft: _Draft, name: str, value: str) -> None:
    draft.found["partition"] = _label(name, value)
    _mark_vendor(draft, name)


def _caller_key(draft: _Draft, name: str, value: str) -> None:
    draft.found["caller_key"] = _label(name, value)
    _mark_vendor(draft, name)


def _groups(draft: _Draft, name: str, value: str) -> None:
    draft.tags.extend(_label(name, quoted or bare) for quoted, bare in _LABEL.findall(value))


def _scope_kind(draft: _Draft, name: str, value: str) -> None:
    if value.lower() not in _SCOPES:
        raise ControlError(name, f"one of {', '.join(_SCOPES)}")
    draft.scope_kind = value.lower()


def _scope_id(draft: _Draft, name: str, value: str) -> None:
    draft.ids[name.removeprefix("x-lamina-")] = _label(name, value)


def _versions(draft: _Draft, name: str, value: str) -> None:
    pairs = []
    for part in value.split(","):
        key, equals, version = part.strip().partition("=")
        if not equals:
            raise ControlError(name, "give name=version pairs, such as prompt=v3, kb=7")
        pairs.append((_label(name, key.strip()), _label(name, version.strip().strip('"'))))
    if len(dict(pairs)) != len(pairs) or len(pairs) > MAX_TAGS:
        raise ControlError(name, f"each name once, at most {MAX_TAGS}")
    draft.found["versions"] = tuple(sorted(pairs))


def _label(name: str, value: str) -> str:
    if not value or len(value) > MAX_LABEL_CHARS or not value.isprintable():
        raise ControlError(name, f"1 to {MAX_LABEL_CHARS} printable characters")
    return value


def _sets(**found: bool) -> Callable[[_Draft, str, str], None]:
    def read(draft: _Draft, name: str, value: str) -> None:
        if value.lower() not in _FALSE:
            draft.found.update(found)
            _mark_vendor(draft, name)

    return read


def _openrouter(draft: _Draft, _name: str, value: str) -> None:
    if value.lower() in _FALSE:
        draft.found.update(no_read=True, no_write=True)
    draft.vendors.append("openrouter")


def _helicone(draft: _Draft, _name: str, value: str) -> None:
    if value.lower() in _TRUE:
        draft.helicone_on = True
    else:
        draft.found.update(no_read=True, no_write=True)
    draft.vendors.append("helicone")


def _op_cache(draft: _Draft, _name: str, value: str) -> None:
    if value.lower() == "readonly":
        draft.found["no_write"] = True
    elif value.lower() == "writeonly":
        draft.found["no_read"] = True


def _portkey_config(draft: _Draft, _name: str, value: str) -> None:
    draft.vendors.append("portkey")
    try:
        config = orjson.loads(value)
    except orjson.JSONDecodeError:
        return
    cache = config.get("cache") if isinstance(config, dict) else None
    if isinstance(cache, dict):
        if isinstance(cache.get("max_age"), int):
            draft.found["max_age_s"] = float(cache["max_age"])
        if cache.get("mode") in ("simple", "semantic"):
            draft.found["mode"] = _MODES[cache["mode"]]


def _mark_vendor(draft: _Draft, name: str) -> None:
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
_HEADERS: dict[bytes, Callable[[_Draft, str, str], None]] = {
    b"cache-control": _cache_control,
    b"x-lamina-cache-ttl": _ttl,
    b"cf-aig-cache-ttl": _ttl,
    b"cf-cache-ttl": _ttl,
    b"x-openrouter-cache-ttl": _ttl,
    b"x-bf-cache-ttl": _ttl,
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


def _body_controls(draft: _Draft, body: Json) -> None:
    cache = body.get("cache")
    if isinstance(cache, dict):
        if cache.get("no-cache") is True:
            draft.found["no_read"] = True
        if cache.get("no-store") is True:
            draft.found["no_write"] = True
        if isinstance(cache.get("namespace"), str):
            draft.found["partition"] = _label("cache.namespace", cache["namespace"])
        _body_seconds(draft, cache, ("ttl",), "ttl_s")
        _body_seconds(draft, cache, ("s-maxage", "s-max-age"), "max_age_s")
    options = body.get("tensorzero::cache_options")
    if isinstance(options, dict):
        _body_seconds(draft, options, ("max_age_s",), "max_age_s")
        enabled = options.get("enabled")
        if enabled in ("off", "write_only"):
            draft.found["no_read"] = True
        if enabled in ("off", "read_only"):
            draft.found["no_write"] = True


def _body_seconds(draft: _Draft, options: Json, names: tuple[str, ...], target: str) -> None:
    for name in names:
        value = options.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            draft.found[target] = float(value)
