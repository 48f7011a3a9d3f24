"""What layers tell their metrics and the log, drawn as spans too; in place of the plain ones when traces are on.

A layer says once what it did and how long it took. So a layer that is counted is traced, and neither knows of it.
"""

from typing import Any

from gateway.telemetry.logs import LinesOfATurn, RequestLog
from gateway.telemetry.metrics import Later, Metrics
from gateway.telemetry.traces import RequestTrace, Traces, Value, shown

_ASKED = {
    "request_id": "lamina.request_id",
    "tenant_id": "lamina.tenant_id",
    "source": "lamina.source",
    "cache": "lamina.cache",
    "reason": "lamina.reason",
    "ttft_ms": "lamina.ttft_ms",
    "status": "http.response.status_code",
    "stream": "gen_ai.request.stream",
    "model": "gen_ai.request.model",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
}
"""Fields of a request's log event, by the names that OpenTelemetry's conventions or we have for them."""


class TracedMetrics(Metrics):
    """Counts as Metrics does, and adds a span per layer to the trace of the request at work."""

    def __init__(self, traces: Traces, later: Later | None = None) -> None:
        super().__init__(later)
        self._traces = traces

    def auth(self, result: str, latency_s: float = 0.0) -> None:
        """See Metrics."""
        super().auth(result, latency_s)
        self._layer("auth", latency_s, {"lamina.result": result})

    def lookup(self, layer: str, result: str, reason: str, latency_s: float) -> None:
        """See Metrics."""
        super().lookup(layer, result, reason, latency_s)
        attributes: dict[str, Value] = {"lamina.layer": layer, "lamina.result": result, "lamina.reason": reason}
        self._layer(f"{layer} lookup", latency_s, attributes)

    def write(self, layer: str, result: str, reason: str, latency_s: float = 0.0) -> None:
        """See Metrics."""
        super().write(layer, result, reason, latency_s)
        attributes: dict[str, Value] = {"lamina.layer": layer, "lamina.result": result, "lamina.reason": reason}
        self._layer(f"{layer} write", latency_s, attributes)

    def guarded(self, judged: str, latency_s: float) -> None:
        """See Metrics."""
        super().guarded(judged, latency_s)
        trace = self._traces.current()
        if trace is not None:
            trace.guards = trace.layer("guards", latency_s, {"lamina.guards.judged": judged})

    def guard_verdict(self, guard: str, reason: str, action: str) -> None:
        """See Metrics."""
        super().guard_verdict(guard, reason, action)
        trace = self._traces.current()
        if trace is not None and trace.guards is not None:
            known = trace.guards.get("lamina.guards.verdicts", ())
            if isinstance(known, tuple):
                trace.guards["lamina.guards.verdicts"] = (*known, f"{guard}:{action}")

    def budget_decision(self, reason: str) -> None:
        """See Metrics."""
        super().budget_decision(reason)
        self._layer("budget", 0.0, {"lamina.reason": reason})

    def flight(self, role: str) -> None:
        """See Metrics."""
        super().flight(role)
        trace = self._traces.current()
        if trace is not None:
            trace.flight(role)

    def fault(self, part: str, reason: str) -> None:
        """See Metrics."""
        super().fault(part, reason)
        trace = self._traces.current()
        if trace is not None:
            trace.fault(part, reason)

    def _layer(self, name: str, latency_s: float, attributes: dict[str, Value]) -> None:
        trace = self._traces.current()
        if trace is not None:
            trace.layer(name, latency_s, attributes)


class TracedLog(RequestLog):
    """Logs as RequestLog does, and ends the trace of the request that the event is about."""

    def __init__(self, traces: Traces, level: str, worker: int, out: LinesOfATurn) -> None:
        super().__init__(level, worker, out)
        self._traces = traces

    def __call__(self, event: dict[str, Any]) -> None:
        """One request's fields."""
        trace = self._traces.current()
        if trace is not None:
            _finish(trace, event)
        super().__call__(event)


def _finish(trace: RequestTrace, event: dict[str, Any]) -> None:
    told = {name: event.get(field) for field, name in _ASKED.items()}
    attributes: dict[str, Value] = {
        name: shown(value) if isinstance(value, str) else value
        for name, value in told.items()
        if value is not None and value != "-"
    }
    trace.finish({"gen_ai.operation.name": "chat", **attributes}, int(event.get("status") or 0))
