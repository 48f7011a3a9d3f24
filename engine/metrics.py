"""What operators see of the engine; the only room that knows Prometheus. Durations in seconds."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from engine.events import FinishReason
from engine.scheduler import Scheduler
from engine.sequence import Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHORT = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PREFIX = "lamina_engine_"


class Metrics:
    """Counts on a registry of its own. Called from the engine's thread, read from the event loop's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._running = self._gauge("running", "Sequences being decoded or prefilled.")
        self._waiting = self._gauge("waiting", "Sequences queued.")
        self._blocks_used = self._gauge("kv_blocks_used", "KV blocks held by sequences.")
        self._blocks_total = self._gauge("kv_blocks_total", "KV blocks in the pool.")
        self._queue_time = self._histogram("queue_time_seconds", "Arrival to first admission.", _LONG)
        self._first = self._histogram("time_to_first_token_seconds", "Arrival to first token.", _LONG)
        self._next = self._histogram("time_per_output_token_seconds", "Between two tokens.", _SHORT)
        self._prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of admitted sequences.")
        self._generated = self._counter("generation_tokens", "Tokens generated.")
        self._preemptions = self._counter("preemptions", "Sequences sent back to be computed again.")
        self._failed_steps = self._counter("failed_steps", "Model steps that raised.")
        self._aborted = self._counter("aborted", "Sequences ended because their client left.")
        self._finished = Counter(
            _PREFIX + "finished", "Sequences ended, by reason.", ["reason"], registry=self.registry
        )
        self._refused = Counter(
            _PREFIX + "refused", "Requests answered with an error status.", ["status"], registry=self.registry
        )
        for reason in FinishReason:
            self._finished.labels(reason.value)

    def exposition(self) -> bytes:
        """Render all metrics as Prometheus text."""
        return generate_latest(self.registry)

    def refused(self, status: int) -> None:
        """Count a request that was answered with an error status."""
        self._refused.labels(str(status)).inc()

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

    def finished(self, sequence: Sequence, reason: FinishReason) -> None:  # noqa: ARG002  (the contract's shape)
        """Note the end of a sequence."""
        self._finished.labels(reason.value).inc()
        if reason is FinishReason.ABORT:
            self._aborted.inc()

    def stepped(self, preempted: int, failed: bool) -> None:
        """Note the end of a step."""
        self._preemptions.inc(preempted)
        self._failed_steps.inc(failed)

    def level(self, scheduler: Scheduler) -> None:
        """Read queue and pool after a change."""
        self._running.set(len(scheduler.running))
        self._waiting.set(len(scheduler.waiting))
        self._blocks_used.set(scheduler.pool.num_used)
        self._blocks_total.set(scheduler.pool.num_blocks)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(_PREFIX + name, text, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(_PREFIX + name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(_PREFIX + name, text, buckets=buckets, registry=self.registry)
