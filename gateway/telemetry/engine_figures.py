"""What the engine's metrics text says, as figures for people; pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_PREFIX = "lamina_engine_"
_SPANS = (
    "queue_time",
    "time_to_first_token",
    "time_per_output_token",
    "prefill_time",
    "decode_time",
    "request_time",
)
_BLOCKS = ("total", "used", "free", "cached", "pinned")
_SHARES = (0.5, 0.95, 0.99)
_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Span:
    """A histogram of times since the engine started.

    Attributes:
        p50_ms, p95_ms, p99_ms: within the bucket they fall into, in proportion; None when nothing was timed.
    """

    count: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """The engine since it started.

    Attributes:
        kv_usage, fragmentation: shares in [0, 1].
        blocks: KV blocks by state: total, used, free, cached, pinned.
        host_bytes: of KV blocks kept on the host.
        hit_tokens: prompt tokens found cached, by tier; query_tokens were looked up.
        hit_rate: of these; None when nothing was looked up.
        misses: look-ups by why their hit ended, evictions by cause, finished by reason.
        out_of_memory: steps that failed for lack of memory.
        spans: times by name.
    """

    running: int
    waiting: int
    kv_usage: float
    fragmentation: float
    blocks: Mapping[str, int]
    host_bytes: int
    query_tokens: int
    hit_tokens: Mapping[str, int]
    hit_rate: float | None
    misses: Mapping[str, int]
    evictions: Mapping[str, int]
    preemptions: Mapping[str, int]
    finished: Mapping[str, int]
    prompt_tokens: int
    generation_tokens: int
    out_of_memory: int
    failed_steps: int
    spans: Mapping[str, Span]


Samples = Mapping[str, Mapping[str, float]]
"""Values by name of the sample, then by its only label's value, empty where it has none."""


def engine_figures(text: str) -> EngineFigures:
    """Figures out of a metrics page.

    Raises:
        ValueError: it is none.
    """
    found = _samples(text)
    hits, queries = _counts(found, "prefix_hit_tokens_total"), _count(found, "prefix_query_tokens_total")
    failed = _counts(found, "failed_steps_total")
    return EngineFigures(
        running=_count(found, "running"),
        waiting=_count(found, "waiting"),
        kv_usage=_value(found, "kv_usage"),
        fragmentation=_value(found, "kv_fragmentation"),
        blocks={state: _count(found, f"kv_blocks_{state}") for state in _BLOCKS},
        host_bytes=_count(found, "kv_host_bytes"),
        query_tokens=queries,
        hit_tokens=hits,
        hit_rate=sum(hits.values()) / queries if queries else None,
        misses=_counts(found, "prefix_misses_total"),
        evictions=_counts(found, "kv_evictions_total"),
        preemptions=_counts(found, "preemptions_total"),
        finished=_counts(found, "finished_total"),
        prompt_tokens=_count(found, "prompt_tokens_total"),
        generation_tokens=_count(found, "generation_tokens_total"),
        out_of_memory=failed.get("out_of_memory", 0),
        failed_steps=sum(failed.values()),
        spans={name: _span(found, f"{name}_seconds") for name in _SPANS},
    )


def _samples(text: str) -> Samples:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(_PREFIX):
                found[sample.name.removeprefix(_PREFIX)]["".join(sample.labels.values())] = sample.value
    return found


def _value(found: Samples, name: str) -> float:
    return sum(found.get(name, {}).values())


def _count(found: Samples, name: str) -> int:
    return round(_value(found, name))


def _counts(found: Samples, name: str) -> dict[str, int]:
    return {label: round(value) for label, value in found.get(name, {}).items()}


def _span(found: Samples, name: str) -> Span:
    count, total_s = _count(found, f"{name}_count"), _value(found, f"{name}_sum")
    edges = sorted((float(edge), seen) for edge, seen in found.get(f"{name}_bucket", {}).items())
    quantiles = [_quantile_ms(edges, share) for share in _SHARES]
    return Span(count, round(total_s / count * _MS, 3) if count else None, *quantiles)


def _quantile_ms(edges: Sequence[tuple[float, float]], share: float) -> float | None:
    """The last finite edge for what lies beyond it."""
    if not edges or edges[-1][1] <= 0:
        return None
    wanted, low_s, below = edges[-1][1] * share, 0.0, 0.0
    for edge_s, seen in edges:
        if edge_s == float("inf"):
            break
        if seen >= wanted:
            inside = (wanted - below) / (seen - below) if seen > below else 1.0
            return round((low_s + (edge_s - low_s) * inside) * _MS, 3)
        low_s, below = edge_s, seen
    return round(low_s * _MS, 3)
