"""What operators see of the engine; the only room that knows Prometheus. Durations in seconds."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from engine.core import StepFigures
from engine.errors import RequestError
from engine.events import FinishReason
from engine.kv.kv_cache import KvUsage
from engine.scheduler import Scheduler
from engine.sequence import Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PREFIX = "lamina_engine_"
_KV_EVERY_CALLS = 32
"""Reading the KV cache's figures walks its books, so a steady engine does it once in so many steps."""


class Metrics:
    """Counts on a registry of its own. Called from the engine's thread, read from the event loop's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = 0
        self._last_running = -1
        self._running = self._gauge("running", "Sequences being decoded or prefilled.")
        self._waiting = self._gauge("waiting", "Sequences queued.")
        self._kv = _KvMetrics(self.registry)
        self._queue_time = self._histogram("queue_time_seconds", "Arrival to first admission.", _LONG)
        self._first = self._histogram("time_to_first_token_seconds", "Arrival to first token.", _LONG)
        self._next = self._histogram("time_per_output_token_seconds", "Between two tokens.", _SHORT)
        self._prefill_time = self._histogram("prefill_time_seconds", "First admission to first token.", _LONG)
        self._decode_time = self._histogram("decode_time_seconds", "First token to last.", _LONG)
        self._whole_time = self._histogram("request_time_seconds", "Arrival to end, aborts left out.", _LONG)
        self._step_time = Histogram(
            _PREFIX + "step_seconds",
            "One step, by what it computed.",
            ["kind"],
            buckets=_SHORT,
            registry=self.registry,
        )
        self._batch = self._histogram("batch_size", "Sequences in a step.", _COUNTS)
        self._step_tokens = self._histogram("step_tokens", "Tokens computed in a step.", _COUNTS)
        self._prompt_tokens = self._counter(
            "prompt_tokens", "Prompt tokens of admitted sequences, cached included."
        )
        self._generated = self._counter("generation_tokens", "Tokens generated.")
        self._computed = self._labelled("computed_tokens", "Tokens run through the model.", "kind")
        self._preemptions = self._labelled("preemptions", "Sequences that gave their blocks back.", "kind")
        self._failed_steps = self._labelled("failed_steps", "Model steps that raised.", "fault")
        self._aborted = self._counter("aborted", "Sequences ended because their client left.")
        self._finished = self._labelled("finished", "Sequences ended.", "reason")
        self._refused = Counter(
            _PREFIX + "refused", "Requests answered with an error.", ["status", "reason"], registry=self.registry
        )
        self._name_labels()

    def exposition(self) -> bytes:
        """Render all metrics as Prometheus text."""
        return generate_latest(self.registry)

    def refused(self, error: RequestError) -> None:
        """Count a request that was answered with an error status."""
        self._refused.labels(str(error.status), error.reason or error.code or error.kind).inc()

    def admitted(self, sequence: Sequence) -> None:
        """Note that a sequence left the queue for the first time."""
        self._prompt_tokens.inc(len(sequence.prompt_ids))
        if sequence.admitted_s is not None:
            self._queue_time.observe(sequence.admitted_s - sequence.arrival_s)

    def token(self, sequence: Sequence, since_last_s: float | None) -> None:
        """Note a token; `since_last_s` is None for the first one."""
        self._generated.inc()
        if since_last_s is not None:
            self._next.observe(since_last_s)
        elif sequence.first_token_s is not None:
            self._first.observe(sequence.first_token_s - sequence.arrival_s)
            if sequence.admitted_s is not None:
                self._prefill_time.observe(sequence.first_token_s - sequence.admitted_s)

    def finished(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        """Note the end of a sequence."""
        self._finished.labels(reason.value).inc()
        if reason is FinishReason.ABORT:
            self._aborted.inc()
            return
        self._whole_time.observe(now_s - sequence.arrival_s)
        if sequence.first_token_s is not None:
            self._decode_time.observe(now_s - sequence.first_token_s)

    def stepped(self, step: StepFigures) -> None:
        """Note the end of a step."""
        plan = step.plan
        prefill = plan.prefill_tokens
        for sequence in plan.preempted:
            self._preemptions.labels("swap" if sequence.swapped else "recompute").inc()
        if step.fault is not None:
            self._failed_steps.labels(step.fault).inc()
        elif plan.work:
            kind = "mixed" if prefill and plan.decoding else "prefill" if prefill else "decode"
            self._step_time.labels(kind).observe(step.seconds)
            self._batch.observe(len(plan.work))
            self._step_tokens.observe(prefill + plan.decoding)
            self._computed.labels("prefill").inc(prefill)
            self._computed.labels("decode").inc(plan.decoding)

    def level(self, scheduler: Scheduler) -> None:
        """Read queue and pool after a change; the KV cache's own figures when the running set changed too."""
        running = len(scheduler.running)
        self._running.set(running)
        self._waiting.set(scheduler.num_waiting)
        if running != self._last_running or self._calls >= _KV_EVERY_CALLS:
            self._kv.read(scheduler.kv.usage())
            self._calls, self._last_running = 0, running
        self._calls += 1

    def _name_labels(self) -> None:
        """Show every known label from the start, so that a rate over it is not blind to the first event."""
        for reason in FinishReason:
            self._finished.labels(reason.value)
        for kind in ("swap", "recompute"):
            self._preemptions.labels(kind)
        for fault in ("error", "out_of_memory"):
            self._failed_steps.labels(fault)
        for kind in ("prefill", "decode"):
            self._computed.labels(kind)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(_PREFIX + name, text, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(_PREFIX + name, text, registry=self.registry)

    def _labelled(self, name: str, text: str, label: str) -> Counter:
        return Counter(_PREFIX + name, text, [label], registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(_PREFIX + name, text, buckets=buckets, registry=self.registry)


class _KvMetrics:
    """The KV cache's figures; what it counts itself is carried over by differences."""

    _GAUGES: Mapping[str, str] = {
        "blocks_total": "KV blocks in the pool.",
        "blocks_used": "KV blocks held by sequences.",
        "blocks_free": "KV blocks held by none, cached ones included.",
        "blocks_cached": "Free KV blocks that hold a prefix somebody may ask for again.",
        "blocks_pinned": "Cached KV blocks that an unexpired breakpoint keeps.",
        "fragmentation": "Slots of held KV blocks that hold no token, as a share.",
        "host_bytes": "Bytes of KV blocks kept on the host.",
    }

    _COUNTERS: Mapping[str, tuple[str, str]] = {
        "query_tokens": ("prefix_query_tokens", "Prompt tokens looked up."),
        "written_tokens": ("prefix_written_tokens", "Tokens newly cached."),
        "corrupt_restores": ("kv_corrupt_restores", "Host blocks with a wrong checksum."),
        "collisions": ("kv_collisions", "KV blocks not cached because another has their digest."),
        "pins_refused": ("kv_pins_refused", "KV blocks not kept because breakpoints kept their share already."),
    }

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = {
            name: Gauge(f"{_PREFIX}kv_{name}", text, registry=registry) for name, text in self._GAUGES.items()
        }
        self._usage = Gauge(_PREFIX + "kv_usage", "Share of KV blocks held by sequences.", registry=registry)
        self._evictions = _counts(registry, "kv_evictions", "Cached KV blocks given up, by cause.", "cause")
        self._hits = _counts(registry, "prefix_hit_tokens", "Prompt tokens found cached, by tier.", "tier")
        self._misses = _counts(
            registry, "prefix_misses", "Look-ups by why the hit ended; none when it did not.", "reason"
        )
        self._single = {
            name: Counter(_PREFIX + metric, text, registry=registry)
            for name, (metric, text) in self._COUNTERS.items()
        }
        self._seen: dict[tuple[str, str], int] = {}

    def read(self, usage: KvUsage) -> None:
        """Take over a reading."""
        for name, gauge in self._gauges.items():
            gauge.set(getattr(usage, name))
        self._usage.set(usage.blocks_used / usage.blocks_total)
        for name, single in self._single.items():
            self._catch_up(single, name, getattr(usage, name))
        for counter, name, counts in (
            (self._evictions, "evictions", usage.evictions),
            (self._hits, "hits", usage.hit_tokens),
            (self._misses, "misses", usage.misses),
        ):
            for label, total in counts.items():
                self._catch_up(counter.labels(label), name, total, label)

    def _catch_up(self, counter: Counter, name: str, total: int, label: str = "") -> None:
        counter.inc(total - self._seen.get((name, label), 0))
        self._seen[name, label] = total


def _counts(registry: CollectorRegistry, name: str, text: str, label: str) -> Counter:
    return Counter(_PREFIX + name, text, [label], registry=registry)
