"""Which page an address means."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from gateway.http.admin.ui.asked import PageRoute

_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Found:
    """A page, and what stands in its path's places."""

    route: PageRoute
    parts: Mapping[str, str]


class Paths:
    """Finds pages."""

    def __init__(self, routes: Sequence[PageRoute]) -> None:
        self._routes = [(route, re.compile(_PLACE.sub(r"(?P<\1>[^/]+)", route.path))) for route in routes]

    def find(self, method: str, path: str) -> Found | None:
        """The page of a path below `/admin/ui`; None when there is none."""
        for route, pattern in self._routes:
            match = pattern.fullmatch(path) if route.method == method else None
            if match is not None:
                return Found(route, {name: unquote(value) for name, value in match.groupdict().items()})
        return None
