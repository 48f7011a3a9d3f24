"""POST /admin/v1/explain: why a request would, or would not, be answered from the cache."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.http.admin.bodies import Body, Name
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import READS, Operator, area

_EXAMPLE: dict[str, Any] = {
    "tenant": "default",
    "request": {"model": "smollm2", "messages": [{"role": "user", "content": "How do I bake bread?"}]},
    "headers": {"cache-control": "max-age=60"},
}


class ExplainBody(Body):
    """A request to be explained.

    Attributes:
        tenant: whose request it is, by name or id.
        request: an OpenAI chat body.
        headers: cache controls.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    tenant: Name
    request: dict[str, Any]
    headers: dict[str, str] = Field(default_factory=dict)


def explain_router(desk: Desk) -> APIRouter:
    """Explanations; they quote stored questions, so they take an operator."""
    router = area("explain")

    @router.post("/explain", summary="Explain a request", openapi_extra=READS)
    async def explain(caller: Operator, body: ExplainBody) -> dict[str, Any]:
        """Says why the request would, or would not, be answered from the cache. Nothing is changed."""
        await desk.tenant(caller, body.tenant)
        return asdict(await desk.explainer.explain(body.tenant, body.request, body.headers))

    return router
