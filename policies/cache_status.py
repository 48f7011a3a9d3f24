"""How an answer's origin is told: `Cache-Status` (RFC 9211), and one plain word for people and dashboards."""

from typing import Literal

import msgspec

from policies.decide import Bypass, Hit, Miss, Stale

CACHE_NAME = "lamina"

Word = Literal["HIT", "STALE", "MISS", "REFRESH", "BYPASS", "OFF"]

_STALE_MISSES = frozenset({"expired", "max_age", "min_fresh", "soft_purged"})


class CacheStatus(msgspec.Struct, frozen=True):
    """The header's value and the word, without what is only known when the answer is whole."""

    word: Word
    value: str


def of_hit(decision: Hit | Stale, layer: str) -> CacheStatus:
    """A stored answer was served; `ttl` is what is left of its life and negative when it is over."""
    detail = layer if isinstance(decision, Hit) else f"{layer}-{decision.reason}"
    word: Word = "HIT" if isinstance(decision, Hit) else "STALE"
    return CacheStatus(word, f"{CACHE_NAME}; hit; ttl={int(decision.ttl_s)}; detail={detail}")


def of_forward(decision: Bypass | Miss) -> CacheStatus:
    """The model was asked; the parameters of RFC 9211 §2.2 say why."""
    if isinstance(decision, Bypass):
        word: Word = "OFF" if decision.reason == "off" else "BYPASS"
        return CacheStatus(word, f"{CACHE_NAME}; fwd=bypass; detail={decision.reason}")
    if decision.reason == "request":
        return CacheStatus("REFRESH", f"{CACHE_NAME}; fwd=request")
    if decision.reason == "absent":
        return CacheStatus("MISS", f"{CACHE_NAME}; fwd=uri-miss")
    if decision.reason.startswith("semantic_"):  # told only where the exact layer had nothing
        return CacheStatus("MISS", f"{CACHE_NAME}; fwd=uri-miss; detail={decision.reason}")
    fwd = "stale" if decision.reason in _STALE_MISSES else "miss"
    return CacheStatus("MISS", f"{CACHE_NAME}; fwd={fwd}; detail={decision.reason}")


def with_outcome(status: CacheStatus, fwd_status: int, *, stored: bool | None, collapsed: bool) -> str:
    """The value with what the model's answer adds.

    Args:
        status: from `of_forward`.
        fwd_status: the upstream's HTTP status.
        stored: None when it is not known yet, as before the body of a stream.
        collapsed: whether the request joined another's model call.
    """
    value = f"{status.value}; fwd-status={fwd_status}"
    if stored:
        value += "; stored"
    return value + "; collapsed" if collapsed else value
