"""What a request asks of the cache: RFC 9111 directives, our own headers, and those of products people come from.

Header design: docs/cache-control.md. Sources: RFC 9111 §5.2.1, RFC 5861, RFC 9211.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from policies.control_headers import HEADERS, MAX_TAGS, ControlError, Draft, label
from policies.keys import Scope
from policies.types import Json

__all__ = ["NO_CONTROLS", "ControlError", "Controls", "partitioning_only", "read_controls", "strip_controls"]


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
        ttl_class: a life that the operator has given a name.
        mode: `off`, `exact`, or None for the route's own.
        partition: a division inside the tenant.
        caller_key: replaces the request's body in the key.
        tags: for purging groups.
        scope: who shares the entry inside the tenant.
        versions: version names and values that become part of the key.
        ids: (kind, id) of the user, session or conversation that the headers name, whatever the scope.
        vendors: products whose headers were used, so that their status header is mirrored.
    """

    no_read: bool = False
    no_write: bool = False
    only_if_cached: bool = False
    max_age_s: float | None = None
    min_fresh_s: float | None = None
    max_stale_s: float | None = None
    ttl_s: float | None = None
    ttl_class: str | None = None
    mode: str | None = None
    partition: str = ""
    caller_key: str | None = None
    tags: tuple[str, ...] = ()
    scope: Scope = field(default_factory=Scope)
    versions: tuple[tuple[str, str], ...] = ()
    ids: tuple[tuple[str, str], ...] = ()
    vendors: tuple[str, ...] = ()


NO_CONTROLS = Controls()


def read_controls(headers: Iterable[tuple[bytes, bytes]], body: Json) -> Controls:
    """The controls of a request.

    Args:
        headers: names in lower case, values as they came.
        body: strictly parsed; its `cache` object and `tensorzero::cache_options` are read, not removed.

    Raises:
        ControlError: a control of ours, or a duration, is not understood; RFC directives are ignored then.
    """
    draft: Draft | None = None
    for name, value in headers:
        read = HEADERS.get(name)
        if read is not None:
            draft = draft or Draft()
            read(draft, name.decode("latin-1"), _text(value).strip())
    if "cache" in body or "tensorzero::cache_options" in body:
        draft = draft or Draft()
        _body_controls(draft, body)
    return NO_CONTROLS if draft is None else _finished(draft, body)


def _text(value: bytes) -> str:
    """UTF-8, so that a tag or user in a header is the one that a body or a purge names; else Latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


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
        ids=controls.ids,
    )


def _finished(draft: Draft, body: Json) -> Controls:
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
    ids = tuple(sorted(draft.ids.items()))
    return Controls(**found, tags=tags, ids=ids, vendors=tuple(dict.fromkeys(draft.vendors)))


def _scope(draft: Draft, body: Json) -> Scope:
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


def _body_controls(draft: Draft, body: Json) -> None:
    cache = body.get("cache")
    if isinstance(cache, dict):
        if cache.get("no-cache") is True:
            draft.found["no_read"] = True
        if cache.get("no-store") is True:
            draft.found["no_write"] = True
        if isinstance(cache.get("namespace"), str):
            draft.found["partition"] = label("cache.namespace", cache["namespace"])
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


def _body_seconds(draft: Draft, options: Json, names: tuple[str, ...], target: str) -> None:
    for name in names:
        value = options.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            draft.found[target] = float(value)
