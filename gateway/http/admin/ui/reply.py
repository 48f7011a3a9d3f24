"""Answers of the dashboard, as they are made of templates and refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import ApiError
from gateway.http.admin.ui.api import Problem
from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.assets import Assets
from gateway.http.admin.ui.render import Renderer
from gateway.http.asgi import Headers, header_value

_HTML: tuple[bytes, bytes] = (b"content-type", b"text/html; charset=utf-8")
_NO_STORE = (b"cache-control", b"no-store")
_FOUND, _SEE_OTHER, _MISSING = 200, 303, 404


@dataclass(slots=True)
class Reply:
    """An answer that is about to be sent, and what the log says of it."""

    status: int
    headers: Headers
    body: bytes = b""
    route: str = "ui"
    actor: str = "-"
    reason: str = "-"


class Replies:
    """Makes answers.

    Args:
        renderer, assets: how they look.
    """

    def __init__(self, renderer: Renderer, assets: Assets) -> None:
        self._renderer = renderer
        self._assets = assets

    def page(self, ask: PageAsk, view: View, area: str) -> Reply:
        """A page for who is signed in."""
        values: dict[str, Any] = {
            "ask": ask,
            "area": area,
            "done": ask.query.get("done", ""),
            "word": ask.form_word,
            **view.values,
        }
        body = self._renderer.html(view.template, values)
        problem = view.values.get("problem")
        reason = problem.code if isinstance(problem, Problem) else "-"
        return Reply(view.status, [_HTML, _NO_STORE], body, f"ui.{area or 'none'}", ask.caller.actor, reason)

    def door(self, values: Mapping[str, Any], status: int = _FOUND) -> Reply:
        """The page to sign in on."""
        return Reply(status, [_HTML, _NO_STORE], self._renderer.html("sign_in.html", values), "ui.sign_in")

    def failed(self, error: ApiError) -> Reply:
        """A page without navigation, for what went wrong before anybody was known."""
        problem = Problem(error.status, error.code or error.kind, error.message)
        body = self._renderer.html("failed.html", {"problem": problem})
        return Reply(error.status, [_HTML, _NO_STORE], body, reason=problem.code)

    def asset(self, path: str) -> Reply:
        """A file."""
        found = self._assets.get(path)
        if found is None:
            return Reply(_MISSING, [(b"content-type", b"text/plain"), _NO_STORE], b"There is no such file.\n")
        headers, body = found
        return Reply(_FOUND, list(headers), body)


def go(location: str, *more: tuple[bytes, bytes], route: str = "ui", actor: str = "-", reason: str = "-") -> Reply:
    """To another page."""
    headers: Headers = [(b"location", header_value(location)), _NO_STORE, *more]
    return Reply(_SEE_OTHER, headers, b"", route, actor, reason)


def problem_view(problem: Problem) -> View:
    """A page that says what the API did not tell."""
    return View("problem.html", {"problem": problem}, problem.status)
