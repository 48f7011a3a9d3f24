"""The exact layer's key: SHA-256 over typed, length-prefixed parts; injective, so two meanings never share a key.

Everything a client sends is in the key except the fields in NOT_KEYED, which cannot change the answer.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from policies.types import Json

KEY_FORMAT = "lamina-key-1"

NOT_KEYED: frozenset[str] = frozenset(
    {
        "stream",
        "stream_options",
        "user",
        "safety_identifier",
        "metadata",
        "store",
        "service_tier",
        "cache_control",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "priority",
        "request_id",
        "session_id",
        "stream_interval",
    }
)
"""Fields that say who asks, how to ship the answer or how to run it, never what the answer is."""

_MARK = frozenset({"cache_control"})
_PART_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Fields of parts (the first also of messages, calls and tools) that ask to keep the prompt up to there."""

_NULL_IS_ABSENT: frozenset[str] = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "modalities",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "verbosity",
        "web_search_options",
    }
)
_DEFAULTS: tuple[tuple[str, float | bool], ...] = (
    ("n", 1),
    ("frequency_penalty", 0.0),
    ("presence_penalty", 0.0),
    ("logprobs", False),
)
_REAL_NUMBERS = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "min_p",
    "repetition_penalty",
    "length_penalty",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Inside the tenant, who shares an entry: everybody (`tenant`), or one user, session or conversation."""

    kind: str = "tenant"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """The exact part of a key that does not depend on the request's body.

    Attributes:
        tenant_id: from the credential alone.
        route: the operation asked for, such as `chat`; two operations never share an entry.
        model: the effective model, aliases resolved, with its provider.
        scope: who shares an entry inside the tenant.
        partition: a caller's own division of its tenant.
        versions: the operator's: prompt template, tool schema, knowledge base, guardrail policy and so on.
        asked_versions: those the request names; beside the operator's and never in their place, so that no request
            can reach what a bump left behind.
    """

    tenant_id: str
    route: str
    model: str
    scope: Scope = field(default_factory=Scope)
    partition: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    asked_versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Primary key and Vary in one (RFC 9111 §2, §4.1)."""

    digest: bytes

    @property
    def hex(self) -> str:
        """64 hexadecimal characters."""
        return self.digest.hex()


def canonical_request(body: Json, ignored: Iterable[str] = ()) -> bytes:
    """The bytes of a request that are keyed: sorted keys, typed numbers, no Unicode folding, unknown fields kept.

    `max_tokens` and `max_completion_tokens` are one field; an explicit null of a known nullable field, and the
    defaults of n, penalties and logprobs, equal absence; temperature 0 equals 0.0.

    Args:
        body: a strictly parsed body, so that every value in it has exactly one text; not changed.
        ignored: further top-level fields that the operator says cannot change the answer.
    """
    kept = {name: value for name, value in body.items() if name not in NOT_KEYED}
    for name in ignored:
        kept.pop(name, None)
    for name in [name for name, value in kept.items() if value is None and name in _NULL_IS_ABSENT]:
        del kept[name]
    for name in _REAL_NUMBERS:
        value = kept.get(name)
        if type(value) is int:
            kept[name] = float(value)
    for name, default in _DEFAULTS:
        if name in kept and kept[name] == default and type(kept[name]) is type(default):
            del kept[name]
    if "max_tokens" in kept and "max_completion_tokens" not in kept:
        kept["max_completion_tokens"] = kept.pop("max_tokens")
    written = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)
    if b'"prompt_cache_breakpoint"' in written or b'"cache_control"' in written:
        written = orjson.dumps(_without_marks(kept), option=orjson.OPT_SORT_KEYS)
    return written


def _without_marks(kept: Json) -> Json:
    """The fields without marks of prompt caching: they ask a server to keep a prefix, which changes no answer.

    Only the places where clients put them are looked at; a tool's schema may have a property of the same name.
    """
    bare = dict(kept)
    for name, strip in (("messages", _bare_message), ("tools", _bare_tool)):
        listed = kept.get(name)
        if isinstance(listed, list):
            bare[name] = [strip(item) if isinstance(item, dict) else item for item in listed]
    return bare


def _bare_message(message: Json) -> Json:
    bare = _without(message, _MARK)
    for name, marks in (("content", _PART_MARKS), ("tool_calls", _MARK)):
        listed = bare.get(name)
        if isinstance(listed, list):
            bare[name] = [_without(item, marks) if isinstance(item, dict) else item for item in listed]
    return bare


def _bare_tool(tool: Json) -> Json:
    bare = _without(tool, _MARK)
    if isinstance(bare.get("function"), dict):
        bare["function"] = _without(bare["function"], _MARK)
    return bare


def _without(item: Json, names: frozenset[str]) -> Json:
    return {name: value for name, value in item.items() if name not in names}


class KeySpace:
    """Makes keys of one namespace; the namespace is hashed once.

    Source: DESIGN, section 5. Each part is framed as tag, length of name, name, length of value, value, so that
    no two different sequences of parts give the same bytes.
    """

    __slots__ = ("_prefix",)

    def __init__(self, namespace: Namespace) -> None:
        self._prefix = hashlib.sha256(encode_parts(namespace_parts(namespace)))

    def of_request(self, canonical: bytes) -> CacheKey:
        """The key of a canonical request."""
        digest = self._prefix.copy()
        digest.update(frame("request", canonical))
        return CacheKey(digest.digest())

    def of_caller(self, chosen: str) -> CacheKey:
        """The key that a caller chose in place of its request's body."""
        digest = self._prefix.copy()
        digest.update(frame("caller", chosen.encode()))
        return CacheKey(digest.digest())


def namespace_parts(namespace: Namespace) -> list[tuple[str, bytes]]:
    """The parts of a namespace, in the order in which they are framed."""
    parts = [
        ("format", KEY_FORMAT.encode()),
        ("tenant", namespace.tenant_id.encode()),
        ("scope", namespace.scope.kind.encode()),
        ("scope-id", namespace.scope.id.encode()),
        ("partition", namespace.partition.encode()),
        ("route", namespace.route.encode()),
        ("model", namespace.model.encode()),
    ]
    parts.extend((f"version:{name}", value.encode()) for name, value in sorted(namespace.versions))
    parts.extend((f"asked:{name}", value.encode()) for name, value in sorted(namespace.asked_versions))
    return parts


def encode_parts(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """Frames parts one after another; injective over sequences of parts."""
    return b"".join(frame(name, value) for name, value in parts)


def frame(name: str, value: bytes) -> bytes:
    """One part: 4 bytes length of name, name, 8 bytes length of value, value (big-endian)."""
    tag = name.encode()
    return len(tag).to_bytes(4, "big") + tag + len(value).to_bytes(8, "big") + value


def merge_versions(*layers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Version maps laid over each other, later ones winning, in a fixed order."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    return tuple(sorted(merged.items()))
