"""GET /v1/models and /v1/models/{id}: the names that this gateway answers to, for SDKs of either kind."""

from urllib.parse import parse_qs

from gateway.errors import ApiError
from gateway.http.asgi import JSON, Receive, Scope, Send, send_whole
from gateway.http.edge import bearer_digest, new_id
from gateway.http.native import speaks_anthropic
from gateway.http.reply import cors, id_headers
from gateway.pipeline import Pipeline
from gateway.protocols.anthropic_models import model_card, model_page
from gateway.protocols.openai_chat import error_bytes
from gateway.routes import Route, Routes
from policies.types import Json


class Models:
    """Lists models; a name may hold slashes, so the whole rest of the decoded path is the name."""

    def __init__(self, pipeline: Pipeline, routes: Routes, created_s: int) -> None:
        self._pipeline = pipeline
        self._routes = routes
        self._created_s = created_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with one model or all.

        Raises:
            ApiError: 401, or 404 for a name that nothing takes.
        """
        headers = scope["headers"]
        await self._pipeline.authenticate(bearer_digest(headers))
        name = scope["path"].partition("/models")[2].strip("/")
        body = self._anthropic(name, scope) if speaks_anthropic(headers) else self._openai(name)
        origin = next((value for key, value in headers if key == b"origin"), None)
        start = [JSON, *id_headers(new_id("req_")), *cors(origin)]
        await send_whole(send, 200, start, error_bytes(body))

    def _openai(self, name: str) -> Json:
        if name:
            return self._card((name, self._found(name).primary.provider))
        return {"object": "list", "data": [*map(self._card, self._sorted())]}

    def _anthropic(self, name: str, scope: Scope) -> Json:
        if name:
            self._found(name)
            return model_card(name, self._created_s)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return model_page([named for named, _ in self._sorted()], query, self._created_s)

    def _sorted(self) -> list[tuple[str, str]]:
        return sorted(self._routes.names())

    def _found(self, name: str) -> Route:
        route = self._routes.resolve(name)
        if route is None:
            raise ApiError(404, f"The model `{name[:100]}` does not exist.", code="model_not_found", param="model")
        return route

    def _card(self, named: tuple[str, str]) -> Json:
        name, provider = named
        return {"id": name, "object": "model", "created": self._created_s, "owned_by": provider}
