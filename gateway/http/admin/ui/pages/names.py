"""The tenants that a caller may know of, for lists to choose from and to call them by their names."""

from collections.abc import Mapping
from typing import Any

from gateway.http.admin.ui.asked import PageAsk

_MOST = 1000


async def tenant_rows(ask: PageAsk) -> list[dict[str, Any]]:
    """Tenants as the API lists them; none when it does not tell."""
    return (await ask.api.get("tenants", {"limit": _MOST})).items


def called(rows: list[dict[str, Any]]) -> Mapping[str, str]:
    """Names by id."""
    return {row["id"]: row["name"] for row in rows}
