"""What every area of the API is made of: roles, pages, and routes that make a change once."""

import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.admin.asked import AdminAsk
from gateway.http.admin.caller import Caller, Role
from gateway.http.admin.once import Asked, Told
from gateway.http.admin.problems import as_api_error, tell

PREFIX = "/admin/v1"
READS = {"x-lamina-changes": False}
"""`openapi_extra` of a POST that changes nothing and so keeps no answer."""
REPEATABLE = {"x-lamina-repeatable": True}
"""`openapi_extra` of a POST that does no more when it is done twice; a PUT or DELETE is so by its nature."""

DEFAULT_LIMIT = 100
MOST_LIMIT = 1000
_SAFE = frozenset({"GET", "HEAD"})
_KEY = "idempotency-key"
_TOLD_AGAIN = frozenset({"cache-group-invalidation"})

Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True)
class Needs:
    """A dependency: lets through who has the role, and gives the route its Caller."""

    role: Role
    everywhere: bool = False

    async def __call__(self, request: Request) -> Caller:
        """Who asks.

        Raises:
            ApiError: 403.
        """
        caller = asked(request).caller
        caller.require(self.role, everywhere=self.everywhere)
        return caller


def needs(role: Role, *, everywhere: bool = False) -> Needs:
    """The dependency for a role; `everywhere` also keeps out tokens that are bound to some tenants."""
    return Needs(role, everywhere)


Reader = Annotated[Caller, Depends(needs("reader"))]
Operator = Annotated[Caller, Depends(needs("operator"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
FleetReader = Annotated[Caller, Depends(needs("reader", everywhere=True))]
FleetOperator = Annotated[Caller, Depends(needs("operator", everywhere=True))]
FleetAdmin = Annotated[Caller, Depends(needs("admin", everywhere=True))]
"""Each route takes exactly one of these; the app is not built otherwise."""


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is asked for.

    Attributes:
        limit: at most so many.
        after: the `next` of the page before; None for the first.
    """

    limit: int
    after: str | None


async def _paging(
    limit: Annotated[int, Query(ge=1, le=MOST_LIMIT, description="At most so many.")] = DEFAULT_LIMIT,
    after: Annotated[str | None, Query(max_length=200, description="`next` of the page before.")] = None,
) -> Paging:
    return Paging(limit, after)


Paged = Annotated[Paging, Depends(_paging)]


class AdminRoute(APIRoute):
    """A route that names itself for the log and, when it changes something, honours `Idempotency-Key`."""

    @property
    def title(self) -> str:
        """Its name, as `keys.create`."""
        area = str(self.tags[0]) if self.tags else "admin"
        return area if self.name == area else f"{area}.{self.name}"

    @property
    def verbs(self) -> frozenset[str]:
        """The methods it takes."""
        return frozenset(self.methods or ())

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        said = (self.openapi_extra or {}).get("x-lamina-changes", True)
        return bool(said) and not self.verbs <= _SAFE

    @property
    def repeatable(self) -> bool:
        """Whether doing it twice does no more than doing it once."""
        said = (self.openapi_extra or {}).get("x-lamina-repeatable", False)
        return bool(said) or self.verbs <= {"PUT", "DELETE"}

    def get_route_handler(self) -> Handle:
        """FastAPI's own, inside ours."""
        handle = super().get_route_handler()

        async def named(request: Request) -> Response:
            asked(request).route = f"admin.{self.title}"
            key = request.headers.get(_KEY)
            if key is None or not self.changes:
                return await handle(request)
            return await _once(request, key, handle, repeatable=self.repeatable)

        return named


def area(name: str) -> APIRouter:
    """An empty router; `name` groups its routes in the document, the log and the metrics."""
    return APIRouter(prefix=PREFIX, tags=[name], route_class=AdminRoute)


def asked(request: Request) -> AdminAsk:
    """What the surface knew of a request before it was routed."""
    ask: AdminAsk = request.scope[AdminAsk.IN_SCOPE]
    return ask


async def _once(request: Request, key: str, handle: Handle, *, repeatable: bool) -> Response:
    ask = asked(request)
    line = f"{request.method} {request.scope['path']}?".encode() + request.scope["query_string"]
    wanted = Asked(ask.caller.actor, key, hashlib.sha256(line + b"\0" + ask.body).digest(), repeatable)
    made: list[Response] = []

    async def change() -> Told:
        response = await _answered(request, handle)
        made.append(response)
        fields = {name: value for name, value in response.headers.items() if name in _TOLD_AGAIN}
        return Told(response.status_code, bytes(response.body), fields)

    told = await ask.once.run(wanted, change)
    if made:
        return made[0]
    return Response(told.body, told.status, {**told.fields, "idempotency-replayed": "true"}, "application/json")


async def _answered(request: Request, handle: Handle) -> Response:
    """The answer; an error of the caller's becomes one here, so that its key is known to be free again."""
    try:
        return await handle(request)
    except Exception as error:
        if as_api_error(error).status >= 500:  # noqa: PLR2004  (HTTP: faults of the server begin here)
            raise
        return await tell(request, error)
