"""POST /admin/v1/explain: why a request would, or would not, be answered from the cache."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gateway.errors import ApiError
from gateway.explain.explainer import Explainer
from policies.types import Json

_FIELDS = frozenset({"tenant", "request", "headers"})


class ExplainWork:
    """What the route does."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    async def __call__(self, body: Json) -> Mapping[str, Any]:
        """The explanation.

        Args:
            body: `tenant` (name or id), `request` (an OpenAI chat body), `headers` (cache controls, optional).

        Raises:
            ApiError: a field is missing, unknown or of another kind; see also Explainer.explain.
        """
        unknown = body.keys() - _FIELDS
        if unknown:
            raise ApiError(400, f"Unknown field {min(unknown)[:40]!r}; there are {', '.join(sorted(_FIELDS))}.")
        tenant, request, headers = body.get("tenant"), body.get("request"), body.get("headers", {})
        if not isinstance(tenant, str) or not tenant:
            raise ApiError(400, "`tenant` must be a tenant's name or id.", param="tenant")
        if not isinstance(request, dict):
            raise ApiError(400, "`request` must be a chat body.", param="request")
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            raise ApiError(400, "`headers` must be an object of texts.", param="headers")
        return asdict(await self._explainer.explain(tenant, request, headers))
