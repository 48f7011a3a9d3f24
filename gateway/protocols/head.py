"""What every chat request must have whatever its protocol, and what none may have; pure."""

from typing import Any

from gateway.errors import ApiError
from policies.types import Json

_MAX_MODEL_CHARS = 1024
_ROUTING_FIELDS = ("api_base", "base_url", "endpoint", "api_key", "extra_headers")


def read_head(body: Any) -> tuple[Json, str, bool]:
    """The body as an object, the model it names, and whether events are wanted.

    Args:
        body: any JSON value.

    Raises:
        ApiError: 400 that names the field.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "You must provide a model parameter: a name from `GET /v1/models`.", param="model")
    if len(model) > _MAX_MODEL_CHARS:  # a wildcard route takes any name, and names of routes are remembered
        raise ApiError(400, f"`model` is longer than {_MAX_MODEL_CHARS} characters.", param="model")
    for name in _ROUTING_FIELDS:
        if name in body:
            raise ApiError(400, f"`{name}` is not accepted in a request: routes are the operator's.", param=name)
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise ApiError(400, "`stream` must be true or false.", param="stream")
    return body, model, bool(stream)
