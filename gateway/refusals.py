"""How requests are refused on the walk, in the native shape."""

from gateway.errors import ApiError
from gateway.settings import CacheSettings


def no_such_model(name: str) -> ApiError:
    """404 for a name that no route takes."""
    return ApiError(
        404,
        f"The model `{name[:100]}` does not exist. `GET /v1/models` lists those that do.",
        code="model_not_found",
        param="model",
    )


def no_such_class(cache: CacheSettings) -> ApiError:
    """400 for a class of lives that the settings do not name."""
    there = f"there are {', '.join(cache.ttl_classes)}" if cache.ttl_classes else "no class is set up"
    problem = f"Bad cache control: x-lamina-cache-class: {there}; the setting cache.ttl_classes names them."
    return ApiError(400, problem, code="invalid_cache_control")


def only_if_cached() -> ApiError:
    """504 for a request that wants a stored answer or none."""
    return ApiError(
        504,
        "No stored answer may be served, and the request says only-if-cached.",
        code="only_if_cached",
        kind="timeout",
        headers={"x-should-retry": "false"},
    )


def broken_protocol(problem: str) -> dict[str, object]:
    """The body of a 502 for an upstream that does not keep its protocol."""
    message = f"The upstream's answer is not what its protocol says: {problem}."
    return {"error": {"message": message, "type": "server_error", "param": None, "code": "upstream_protocol"}}
