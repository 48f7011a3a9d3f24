"""Templates to HTML; everything that was not written here is escaped."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, Undefined

from gateway.http.admin.ui.assets import Assets
from gateway.http.admin.ui.figures import FILTERS
from gateway.http.admin.ui.sessions import PATH

TEMPLATES = Path(__file__).parent / "templates"


class Renderer:
    """Renders a page from its template.

    Args:
        assets: told where files are.
        shared: what every template is given.
    """

    def __init__(self, assets: Assets, shared: Mapping[str, Any]) -> None:
        self._environment = Environment(
            autoescape=True,
            loader=FileSystemLoader(TEMPLATES),
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update({name: _lenient(shown) for name, shown in FILTERS.items()})
        self._environment.globals.update({"asset": assets.url, "base": PATH, **shared})

    def html(self, template: str, values: Mapping[str, Any]) -> bytes:
        """The page as UTF-8."""
        text = self._environment.get_template(template).render(values)
        return text.encode("utf-8", "replace")


def _lenient(shown: Callable[..., str]) -> Callable[..., str]:
    """Nothing is told of what the API did not tell."""

    def lenient(value: Any, *more: Any) -> str:
        return shown(None if isinstance(value, Undefined) else value, *more)

    return lenient
