"""What operators see of the service; the only room that knows Prometheus. Durations in seconds."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from policies.nomination import Candidate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "lamina_semantic_"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 5.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_STAGES = ("embedding", "search", "vetoes", "verifier")


class Metrics:
    """Counts on a registry of its own; called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests answered.", "path", "status")
        self._seconds = self._histogram("request_seconds", "Arrival to answer.", _SECONDS, "path")
        self._stages = self._histogram("stage_seconds", "Parts of a look-up.", _SECONDS, "stage")
        self._batches = self._histogram("batch_size", "Items computed together.", _COUNTS, "model")
        self._cached = self._counter("embedding_cache", "Texts to embed, by whether they were cached.", "found")
        self._candidates = self._counter("candidates", "Candidates told, by the veto against them.", "veto")
        self._faults = self._counter("faults", "Failures that a request or the index went on without.", "where")
        for stage in _STAGES:
            self._stages.labels(stage)
        for found in ("hit", "miss"):
            self._cached.labels(found)

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def nominated(self, spent_ms: tuple[float, float, float, float], candidates: Sequence[Candidate]) -> None:
        """A look-up was answered."""
        for stage, milliseconds in zip(_STAGES, spent_ms, strict=True):
            self._stages.labels(stage).observe(milliseconds / 1000)
        for candidate in candidates:
            self._candidates.labels(candidate.veto or "none").inc()

    def fault(self, where: str) -> None:
        """Something failed, and the service goes on without it."""
        self._faults.labels(where).inc()

    def batch(self, model: str) -> Callable[[int], None]:
        """What to call with the size of each of a model's batches."""
        return self._batches.labels(model).observe

    def cached(self, asked: int, hits: int) -> None:
        """Texts were embedded, some of them known already."""
        self._cached.labels("hit").inc(hits)
        self._cached.labels("miss").inc(asked - hits)

    def watch(self, name: str, told: str, value: Callable[[], float]) -> None:
        """A gauge that is read when it is scraped."""
        Gauge(_PREFIX + name, told, registry=self.registry).set_function(value)

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, told, labels, registry=self.registry)

    def _histogram(self, name: str, told: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(_PREFIX + name, told, labels, buckets=buckets, registry=self.registry)
