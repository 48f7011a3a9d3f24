"""The FastAPI application of the administrator's routes, and its OpenAPI document."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse

from gateway.errors import SettingsError
from gateway.http.admin.frame import PREFIX, AdminRoute, Needs, Reader
from gateway.http.admin.problems import ERRORS, MEDIA_TYPE, tell

DOCUMENT = f"{PREFIX}/openapi.json"

_ABOUT = """Everything takes `Authorization: Bearer …` with the administrator's key or a token. A token has a role
(reader, operator, admin; each may do what those before it may) and may be bound to some tenants; others do not
exist for it. `x-lamina-role` says which role an operation takes. A change that carries an `Idempotency-Key` is
made once, however often it is sent. Lists come in pages: send `next` as `after`. Errors
are problems of RFC 9457."""

_PROBLEM = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:lamina:problem:not_found"]},
        "title": {"type": "string", "examples": ["Not Found"]},
        "status": {"type": "integer", "examples": [404]},
        "detail": {"type": "string", "examples": ["There is no tenant 'acme'."]},
        "code": {"type": "string", "examples": ["not_found"]},
        "param": {"type": "string", "examples": ["tenant"]},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_PROBLEMS: Mapping[str, str] = {
    "400": "The request is not understood.",
    "401": "No credential, or one of nobody.",
    "403": "A tenant's key, a role that is too low, or a token bound to some tenants.",
    "404": "There is none, or none that this token may know of.",
    "409": "The records, or another request, stand against it.",
    "422": "The Idempotency-Key was used for another request.",
    "429": "Too many credentials of nobody came from there within a minute.",
    "503": "A store does not answer; nothing is known to have changed.",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes the change once, however often it is sent; kept for a day.",
    "schema": {"type": "string", "maxLength": 255},
    "example": "5f2c1a9e-rotation-42",
}


def admin_app(routers: Iterable[APIRouter], version: str) -> FastAPI:
    """The application of these routers.

    Raises:
        SettingsError: a route does not say which role it takes, or there is one of the same method and path.
    """
    app = FastAPI(
        title="Lamina administration",
        version=version,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(ERRORS, tell),
        generate_unique_id_function=_operation,
    )
    routes = [route for router in routers for route in router.routes]
    app.router.routes.extend(routes)
    _check(routes)

    async def document(_caller: Reader) -> JSONResponse:
        return JSONResponse(_document(app, routes))

    app.router.routes.append(
        AdminRoute(DOCUMENT, document, methods=["GET"], name="openapi", include_in_schema=False)
    )
    return app


def role_of(route: AdminRoute) -> Needs:
    """What the route says that it needs.

    Raises:
        SettingsError: it says nothing, or several things.
    """
    found = _needs(route.dependant)
    if len(found) != 1:
        raise SettingsError(f"{route.path} must take exactly one role, as gateway.http.admin.frame has them")
    return found[0]


def _needs(dependant: Dependant) -> list[Needs]:
    own = [dependant.call] if isinstance(dependant.call, Needs) else []
    return own + [one for part in dependant.dependencies for one in _needs(part)]


def _check(routes: Sequence[object]) -> None:
    taken: set[tuple[str, str]] = set()
    for route in routes:
        if not isinstance(route, AdminRoute):
            raise SettingsError(f"{route!r} is not of a router that gateway.http.admin.frame.area made")
        role_of(route)
        for method in route.verbs:
            if (method, route.path) in taken:
                raise SettingsError(f"{method} {route.path} is there twice")
            taken.add((method, route.path))


def _operation(route: Any) -> str:
    title: str = route.title if isinstance(route, AdminRoute) else route.name
    return title.replace(".", "_")


def _document(app: FastAPI, routes: Sequence[Any]) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=routes)
        parts = made.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = _PROBLEM
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"bearer": []}]
        for route in routes:
            if route.include_in_schema:
                for method in route.verbs:
                    _complete(made["paths"][route.path_format][method.lower()], route)
        app.openapi_schema = made
    return app.openapi_schema


def _complete(operation: dict[str, Any], route: AdminRoute) -> None:
    needed = role_of(route)
    operation["x-lamina-role"] = needed.role
    operation["x-lamina-everywhere"] = needed.everywhere
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, description in _PROBLEMS.items():
        if route.changes or status not in {"409", "422"}:
            operation["responses"][status] = {"description": description, "content": content}
    if route.changes:
        operation.setdefault("parameters", []).append(_KEY)
