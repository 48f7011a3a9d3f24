"""Prometheus metrics of one gateway worker, summed over workers when they share a folder.

Labels come from closed sets: layers, results and reasons of `policies`, model names of the route table, never from
a request's text.
"""

import bisect
import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from policies.ledger import PICO, Split

_FAST_S = (0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_SLOW_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

CONTENT_TYPE = CONTENT_TYPE_LATEST
FLUSH_S = 0.05
"""How old another worker's figures may be when one is asked."""

MOST_BUDGETS = 100
"""Tenants and routes whose error budget has gauges of its own."""

Later = Callable[[float, Callable[[], None]], object]
Mode = Literal["livemin", "livemax", "mostrecent"]
"""Which worker's word counts, where they share a folder."""


class Metrics:
    """Counters by name; label children are kept, since looking one up costs more than counting.

    Args:
        later: `loop.call_later`; given, figures are written to the shared folder once in FLUSH_S and at each
            exposition, since a write costs more than the addition.

    Workers share a folder when PROMETHEUS_MULTIPROC_DIR was set before this process began; the client library
    alone reads that variable.
    """

    def __init__(self, later: Later | None = None) -> None:
        self._later = later
        self._waiting = False
        self._counts: dict[tuple[Any, tuple[str, ...]], float] = {}
        self._observed: dict[tuple[Any, tuple[str, ...]], list[float]] = {}
        self.registry = CollectorRegistry()
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._requests = self._counter("requests", "Requests answered", "route", "status", "stream")
        self._lookups = self._counter("cache_lookups", "Look-ups of a layer", "layer", "result", "reason")
        self._lookup_s = self._histogram("cache_lookup_seconds", "Time a layer took to answer", _FAST_S, "layer")
        self._request_s = self._histogram("request_seconds", "Time to the last byte", _SLOW_S, "route", "source")
        self._first_byte_s = self._histogram("ttft_seconds", "Time to the first event", _SLOW_S, "source")
        self._writes = self._counter("cache_writes", "Answers stored or refused", "layer", "result", "reason")
        self._tokens = self._counter("tokens", "Tokens of answers", "kind", "source", "model")
        self._saved = self._counter("tokens_saved", "Tokens that no model had to process", "layer", "kind")
        self._would = self._counter(
            "tokens_would_save", "Tokens an observed layer would have saved", "layer", "kind"
        )
        self._faults = self._counter("faults", "Faults that cost a layer, not a request", "part", "reason")
        self._upstream = self._counter("upstream_calls", "Calls to providers", "provider", "result")
        self._upstream_s = self._histogram("upstream_seconds", "Time a provider took", _SLOW_S, "provider")
        self._flights = self._counter("flights", "Model calls led, and requests that joined one", "role")
        self._call_tokens = self._counter("call_tokens", "Tokens of model calls", "provider", "model", "kind")
        self._spent = self._counter("spent_usd", "Money for model calls, by list price", "provider", "model")
        self._saved_usd = self._counter("saved_usd", "Money that stored answers saved at least", "layer")
        self._feed = self._counter("feed_lines", "Requests shown in the feed, skipped or lost", "result")
        self._flying = self._gauge("flights_in_progress", "Model calls in progress")
        self._auth = self._counter("auth", "Credentials judged", "result")
        self._auth_s = self._histogram("auth_seconds", "Time to judge a credential", _FAST_S, "result")
        self._write_s = self._histogram("cache_write_seconds", "Time a layer took to store", _FAST_S, "layer")
        self._spans = self._counter("spans", "Spans of traces sent, failed or dropped", "result")
        self._part_up = self._state("part_up", "Whether a part answers", "part", mode="livemin")
        self._breaker = self._state("breaker_open", "Whether a part is left alone", "part", mode="livemax")
        self._verdicts = self._counter("guard_verdicts", "Verdicts of guards", "guard", "reason", "action")
        self._guard_s = self._histogram("guard_seconds", "Time the guards took together", _FAST_S, "judged")
        self._budget_decisions = self._counter("budget_decisions", "Candidates the error budget judged", "reason")
        self._budget_steps = self._counter(
            "budget_steps", "Moves of the error budget's guard", "caution", "reason"
        )
        self._compared = self._counter("budget_audits", "Stored answers compared with fresh ones", "how", "result")
        self._refreshed = self._counter("refreshed_answers", "Answers that took another's place", "result")
        self._feedback = self._counter("feedback", "Answers that users judged", "verdict")
        self._wrong = self._latest("budget_wrong_share", "Wrong answers of the semantic layer in all requests")
        self._wrong_high = self._latest("budget_wrong_share_high", "Upper 95 % bound of wrong answers in all")
        self._wrong_low = self._latest("budget_wrong_share_low", "Lower 95 % bound of wrong answers in all")
        self._max_wrong = self._latest("budget_max_wrong", "Largest share of wrong answers allowed")
        self._suspended = self._latest("budget_suspended", "Whether the layer has stopped serving by itself")
        self._budgets_told: set[tuple[str, str]] = set()

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"lamina_{name}", help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"lamina_{name}", help_, labels, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, help_: str) -> Gauge:
        return Gauge(f"lamina_{name}", help_, registry=self.registry, multiprocess_mode="livesum")

    def _latest(self, name: str, help_: str) -> Gauge:
        return self._state(name, help_, "tenant_id", "route", mode="mostrecent")

    def _state(self, name: str, help_: str, *labels: str, mode: Mode) -> Gauge:
        return Gauge(f"lamina_{name}", help_, labels, registry=self.registry, multiprocess_mode=mode)

    def _child(self, metric: Any, labels: tuple[str, ...]) -> Any:
        key = (metric, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def _add(self, metric: Any, *labels: str, amount: float = 1.0) -> None:
        key = (metric, labels)
        self._counts[key] = self._counts.get(key, 0.0) + amount
        if not self._waiting:
            self._flush_later()

    def _observe(self, metric: Any, value: float, *labels: str) -> None:
        key = (metric, labels)
        seen = self._observed.get(key)
        if seen is None:
            self._observed[key] = [value]
        else:
            seen.append(value)
        if not self._waiting:
            self._flush_later()

    def _flush_later(self) -> None:
        if self._later is None:
            self.flush()
        else:
            self._waiting = True
            self._later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Writes what was added since the last time."""
        self._waiting = False
        counts, self._counts = self._counts, {}
        observed, self._observed = self._observed, {}
        for (metric, labels), amount in counts.items():
            self._child(metric, labels).inc(amount)
        for (metric, labels), seen in observed.items():
            observe_all(self._child(metric, labels), seen)

    def request(self, route: str, status: int, source: str, latency_s: float, *, stream: bool) -> None:
        """A request was answered; `source` is the layer, or `model`, `none`."""
        self._add(self._requests, route, str(status), "true" if stream else "false")
        self._observe(self._request_s, latency_s, route, source)

    def first_byte(self, source: str, latency_s: float) -> None:
        """The first event of a streamed answer left."""
        self._observe(self._first_byte_s, latency_s, source)

    def lookup(self, layer: str, result: str, reason: str, latency_s: float) -> None:
        """A layer was asked: hit, stale, miss or unavailable, with the decision's reason."""
        self._add(self._lookups, layer, result, reason)
        self._observe(self._lookup_s, latency_s, layer)

    def write(self, layer: str, result: str, reason: str, latency_s: float = 0.0) -> None:
        """An answer was stored, refused or lost; the time is that of a store that was asked."""
        self._add(self._writes, layer, result, reason)
        if latency_s:
            self._observe(self._write_s, latency_s, layer)

    def tokens(self, source: str, model: str, prompt: int, completion: int) -> None:
        """Tokens of an answer; those of a layer were saved."""
        self._add(self._tokens, "prompt", source, model, amount=prompt)
        self._add(self._tokens, "completion", source, model, amount=completion)
        if source != "model":
            self._add(self._saved, source, "prompt", amount=prompt)
            self._add(self._saved, source, "completion", amount=completion)

    def prompt_cached(self, prompt: int) -> None:
        """Prompt tokens that a model's server had in its own cache: the model was asked, but not for these."""
        self._add(self._saved, "prompt", "prompt", amount=prompt)

    def would_save(self, layer: str, prompt: int, completion: int) -> None:
        """An observed layer had an answer that it was not allowed to serve."""
        self._add(self._would, layer, "prompt", amount=prompt)
        self._add(self._would, layer, "completion", amount=completion)

    def fault(self, part: str, reason: str) -> None:
        """Something failed and the request went on without it."""
        self._add(self._faults, part, reason)

    def upstream(self, provider: str, result: str, latency_s: float) -> None:
        """A provider answered or failed."""
        self._add(self._upstream, provider, result)
        self._observe(self._upstream_s, latency_s, provider)

    def called(self, provider: str, model: str, parts: Split) -> None:
        """A model's server told what a call used."""
        for kind, tokens in zip(parts._fields, parts, strict=True):
            if tokens:
                self._add(self._call_tokens, provider, model, kind, amount=tokens)

    def spent(self, provider: str, model: str, pico_usd: int) -> None:
        """What such a call cost."""
        self._add(self._spent, provider, model, amount=pico_usd / PICO)

    def saved(self, layer: str, pico_usd: int) -> None:
        """A layer answered instead of a model."""
        self._add(self._saved_usd, layer, amount=pico_usd / PICO)

    def feed(self, result: str, lines: int) -> None:
        """Lines of the feed were written, skipped since too many came, or lost since Redis is away."""
        if lines:
            self._add(self._feed, result, amount=lines)

    def flight(self, role: str) -> None:
        """A request leads a model call, or joined one."""
        self._add(self._flights, role)

    def flying(self, change: int) -> None:
        """Model calls in progress changed by this much."""
        self._flying.inc(change)

    def auth(self, result: str, latency_s: float = 0.0) -> None:
        """A credential was judged: ok, missing, unknown, revoked or unavailable."""
        self._add(self._auth, result)
        if latency_s:
            self._observe(self._auth_s, latency_s, result)

    def part(self, name: str, *, up: bool) -> None:
        """Whether a part answers."""
        self._part_up.labels(name).set(up)

    def breaker(self, name: str, *, opened: bool) -> None:
        """Whether requests leave a part alone for a while."""
        self._breaker.labels(name).set(opened)

    def spans(self, result: str, count: int) -> None:
        """Spans of traces were sent, or lost: failed or dropped."""
        self._add(self._spans, result, amount=count)

    def guard_verdict(self, guard: str, reason: str, action: str) -> None:
        """A guard spoke against storing an answer freely, or against a question."""
        self._add(self._verdicts, guard, reason, action)

    def guarded(self, judged: str, latency_s: float) -> None:
        """Guards were asked about an `answer` or a `question`."""
        self._observe(self._guard_s, latency_s, judged)

    def budget_decision(self, reason: str) -> None:
        """The error budget judged a candidate: served, learn, audit, hopeless and so on."""
        self._add(self._budget_decisions, reason)

    def budget_step(self, caution: str, reason: str) -> None:
        """The error budget's guard moved to this caution."""
        self._add(self._budget_steps, caution, reason)

    def compared(self, how: str, result: str) -> None:
        """A stored answer was compared with a fresh one: right, wrong, unknown or lost; `how` says by what."""
        self._add(self._compared, how, result)

    def feedback(self, verdict: str) -> None:
        """A user said what an answer was: right or wrong."""
        self._add(self._feedback, verdict)

    def refreshed(self, result: str) -> None:
        """A fresh answer was compared with the one whose place it took: same, changed, unknown or lost."""
        self._add(self._refreshed, result)

    def budget_figures(
        self,
        tenant_id: str,
        route: str,
        share: float,
        high: float,
        *,
        low: float = 0.0,
        allowed: float = 1.0,
        suspended: bool = False,
    ) -> None:
        """What audits say of a tenant and route; only the first MOST_BUDGETS of a worker are told.

        The share is that of wrong answers in all requests, `low` and `high` the bounds of its 95 % interval,
        `allowed` the budget; a layer that is `suspended` has stopped serving by itself.
        """
        name = (tenant_id, route)
        if name not in self._budgets_told and len(self._budgets_told) >= MOST_BUDGETS:
            return
        self._budgets_told.add(name)
        figures = {self._wrong: share, self._wrong_low: low, self._wrong_high: high, self._max_wrong: allowed}
        for gauge, value in figures.items():
            gauge.labels(*name).set(value)
        self._suspended.labels(*name).set(suspended)

    def exposition(self) -> bytes:
        """The text format, over all workers when they share a folder."""
        self.flush()
        if values.ValueClass is values.MutexValue:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def observe_all(child: Any, seen: list[float]) -> None:
    """Does what `child.observe` does for each value, with one write per bucket instead of two per value.

    Reaches into the histogram of the pinned client library; a test holds it equal to `observe`.
    """
    bounds, buckets = child._upper_bounds, child._buckets  # noqa: SLF001
    child._sum.inc(sum(seen))  # noqa: SLF001
    for position, count in collections.Counter(bisect.bisect_left(bounds, value) for value in seen).items():
        buckets[position].inc(count)


def forget_worker(shared: Path, pid: int) -> None:
    """Drops the live gauges of a worker that ended; its counters stay in the sums."""
    for path in shared.glob(f"gauge_live*_{pid}.db"):
        path.unlink(missing_ok=True)
