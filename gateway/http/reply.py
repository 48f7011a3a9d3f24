"""How an answer is told to the client: cache headers, the mirrors of vendors whose headers were used, CORS."""

from collections.abc import Mapping, Sequence

from gateway.http.asgi import JSON, Headers, header_value
from gateway.walk import Flying, Served
from policies.cache_status import CacheStatus, of_forward, of_hit, with_outcome
from policies.decide import Store

_SSE: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
]
_OUTWARD_CACHE = (b"cache-control", b"private, no-cache")
_OUTWARD_STREAM = (b"cache-control", b"no-cache")

EXPOSED = (
    "Cache-Status, Age, X-Request-Id, Request-Id, X-Lamina-Cache, X-Lamina-Cache-Id, X-Lamina-Cache-Reason, "
    "X-Lamina-Cache-Source-Id, X-Lamina-Cache-Source-Key, X-Lamina-Cache-Refresh, X-Lamina-Model, "
    "X-Lamina-Prefix-Miss, Retry-After"
)
_CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", EXPOSED.encode()),
    (b"vary", b"Origin"),
]
_VENDOR_WORDS: Mapping[str, tuple[bytes, Mapping[str, str]]] = {
    "cloudflare": (b"cf-aig-cache-status", {}),
    "portkey": (b"x-portkey-cache-status", {"BYPASS": "DISABLED", "OFF": "DISABLED", "STALE": "HIT"}),
    "helicone": (b"helicone-cache", {}),
    "openrouter": (b"x-openrouter-cache-status", {}),
}


def first_headers(request_id: str, *, stream: bool) -> Headers:
    """Headers of every answer of a model surface."""
    start = list(_SSE) if stream else [JSON]
    start.append(_OUTWARD_STREAM if stream else _OUTWARD_CACHE)
    start.extend(id_headers(request_id))
    return start


def id_headers(request_id: str) -> Headers:
    """The request's id under the names that either SDK reads."""
    label = request_id.encode()
    return [(b"x-request-id", label), (b"request-id", label)]


def cors(origin: bytes | None) -> Headers:
    """CORS headers when a browser asked; keys travel in Authorization, never in cookies, so any origin may ask."""
    return _CORS if origin is not None else []


def hit_headers(served: Served, vendors: Sequence[str]) -> Headers:
    """What is told of a stored answer."""
    status = of_hit(served.decision, served.layer)
    headers = [
        (b"cache-status", status.value.encode()),
        (b"age", b"%d" % int(served.decision.age_s)),
        (b"x-lamina-cache", status.word.encode()),
        (b"x-lamina-cache-id", served.key.hex.encode()),
        (b"x-lamina-cache-source-id", header_value(served.source_id)),
    ]
    if served.refresh:
        headers.append((b"x-lamina-cache-refresh", served.refresh.encode()))
    if served.source_key_hex:
        headers.append((b"x-lamina-cache-source-key", served.source_key_hex.encode()))
    headers.extend(_mirrors(status, vendors))
    return headers


def flying_headers(flying: Flying, vendors: Sequence[str]) -> Headers:
    """What is told of a model's answer; `stored` and its reason only once the answer is whole."""
    status = of_forward(flying.decision)
    flight = flying.passenger.flight
    stored: bool | None = None
    headers: Headers = []
    if flight.landing is not None:
        decision = flight.landing.decision
        stored = isinstance(decision, Store)
        if not isinstance(decision, Store):
            headers.append((b"x-lamina-cache-reason", decision.reason.encode()))
    value = with_outcome(status, 200, stored=stored, collapsed=not flying.leads)
    headers.append((b"cache-status", value.encode()))
    headers.append((b"x-lamina-cache", status.word.encode()))
    if flying.key is not None:
        headers.append((b"x-lamina-cache-id", flying.key.hex.encode()))
    if flight.target is not None:
        headers.append((b"x-lamina-model", header_value(flight.target.label)))
    headers.extend((name.encode(), header_value(value)) for name, value in flight.headers.items())
    headers.extend(_mirrors(status, vendors))
    return headers


def _mirrors(status: CacheStatus, vendors: Sequence[str]) -> Headers:
    mirrored: Headers = []
    for vendor in vendors:
        name, words = _VENDOR_WORDS[vendor]
        mirrored.append((name, words.get(status.word, status.word).encode()))
    return mirrored
