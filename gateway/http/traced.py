"""A route whose requests are traced; put around a route only when traces are on."""

from gateway.http.asgi import Endpoint, Receive, Scope, Send
from gateway.telemetry.traces import Traces


class TracedEndpoint:
    """Begins a trace with each request; the request's log event ends it."""

    def __init__(self, endpoint: Endpoint, route: str, traces: Traces) -> None:
        self._endpoint = endpoint
        self._route = route
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        self._traces.begin(scope["method"], self._route, scope["headers"])
        await self._endpoint(scope, receive, send)
