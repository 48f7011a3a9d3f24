"""What a page is asked, and what it answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from gateway.http.admin.caller import ROLES, Caller, Role
from gateway.http.admin.ui.api import Api
from gateway.http.admin.ui.sessions import PATH


@dataclass(frozen=True, slots=True)
class PageAsk:
    """One request for a page.

    Attributes:
        api: asked on the caller's behalf.
        parts: what stands in the path's places.
        query, form: one value per name.
        form_word: what the page's forms must send along.
        now_s: seconds since the epoch.
    """

    caller: Caller
    api: Api
    parts: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    form_word: str
    now_s: float

    def can(self, role: Role, everywhere: bool = False) -> bool:
        """Whether the caller may do what this role may."""
        enough = ROLES.index(self.caller.role) >= ROLES.index(role)
        return enough and (self.caller.everywhere or not everywhere)

    def given(self, *names: str) -> dict[str, str]:
        """These fields of the query, without those left empty."""
        return {name: value for name in names if (value := self.query.get(name, "").strip())}

    def filled(self, name: str) -> str:
        """A field of the form, without blanks around it."""
        return self.form.get(name, "").strip()


@dataclass(frozen=True, slots=True)
class View:
    """A page to be rendered.

    Attributes:
        template: its file.
        values: what the template is given.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Go:
    """Another page to go to, by its path below `/admin/ui`, after something was done.

    Attributes:
        done: names what was done, for a line on top of that page.
    """

    path: str
    done: str = ""

    @property
    def location(self) -> str:
        """As the header has it."""
        mark = "&" if "?" in self.path else "?"
        return f"{PATH}{self.path}{mark + urlencode({'done': self.done}) if self.done else ''}"


Page = Callable[[PageAsk], Awaitable[View | Go]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """Where a page is.

    Attributes:
        path: below `/admin/ui`; `{name}` stands for one part of it.
        area: which entry of the navigation it belongs to, and its name in the log.
        everywhere: whether it is only for callers who are bound to no tenants.
    """

    method: str
    path: str
    page: Page
    area: str
    role: Role = "reader"
    everywhere: bool = False
