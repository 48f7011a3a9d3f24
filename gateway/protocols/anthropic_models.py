"""Model lists in Anthropic's shape; pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gateway.errors import ApiError
from policies.types import Json

_LIMIT, _MAX_LIMIT = 20, 1000


def model_card(name: str, created_s: int) -> Json:
    """One model; what this gateway does not know of it is null."""
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": datetime.fromtimestamp(created_s, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "capabilities": None,
        "max_input_tokens": None,
        "max_tokens": None,
    }


def model_page(names: Sequence[str], query: Mapping[str, Sequence[str]], created_s: int) -> Json:
    """One page of the list.

    Args:
        names: of all models, in order.
        query: `limit`, `after_id` or `before_id`, `lifecycle`.
        created_s: seconds since the epoch.

    Raises:
        ApiError: 400 for a bad limit or an id that is not in the list.
    """
    stages = [*query.get("lifecycle", ()), *query.get("lifecycle[]", ())]
    shown = list(names) if not stages or "active" in stages else []
    limit = _limit(query)
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise ApiError(400, "`after_id` and `before_id` exclude each other.", param="before_id")
    if before:
        end = _place(shown, before[-1], "before_id")
        start = max(0, end - limit)
        more = start > 0
    else:
        start = _place(shown, after[-1], "after_id") + 1 if after else 0
        end = start + limit
        more = end < len(shown)
    page = shown[start:end]
    return {
        "data": [model_card(name, created_s) for name in page],
        "has_more": more,
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _limit(query: Mapping[str, Sequence[str]]) -> int:
    text = query.get("limit", [str(_LIMIT)])[-1]
    short = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_LIMIT))
    limit = int(text) if short else 0
    if not 1 <= limit <= _MAX_LIMIT:
        raise ApiError(400, f"`limit` must be a whole number from 1 to {_MAX_LIMIT}.", param="limit")
    return limit


def _place(names: Sequence[str], name: str, param: str) -> int:
    if name not in names:
        raise ApiError(400, f"`{param}` is the id of no model in this list.", param=param)
    return names.index(name)
