"""All below `/admin/ui`: files, sign-in, then pages for who is signed in."""

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode

from gateway.errors import ApiError
from gateway.http.admin.caller import Caller
from gateway.http.admin.once import Once
from gateway.http.admin.ui.api import Api, Problem, ProblemError
from gateway.http.admin.ui.asked import Go, PageAsk, PageRoute
from gateway.http.admin.ui.assets import PREFIX, Assets
from gateway.http.admin.ui.entrance import Entrance, SignedIn
from gateway.http.admin.ui.headers import answer_headers, first_values, header, is_secure, same_origin
from gateway.http.admin.ui.paths import Paths
from gateway.http.admin.ui.render import Renderer
from gateway.http.admin.ui.reply import Replies, Reply, go, problem_view
from gateway.http.admin.ui.routes import NAVIGATION, ROUTES, SAID
from gateway.http.admin.ui.sessions import PATH, cookie_header
from gateway.http.asgi import ClientGone, Endpoint, Receive, Scope, Send, header_value, read_body, send_whole
from gateway.http.edge import new_id
from gateway.http.reply import id_headers
from gateway.layers.parts import Parts
from gateway.settings import LimitSettings
from gateway.telemetry.logs import RequestLog
from gateway.telemetry.metrics import Metrics

SIGN_IN, SIGN_OUT = f"{PATH}/sign-in", f"{PATH}/sign-out"
_FORM = "application/x-www-form-urlencoded"
_FORM_BYTES = 64 << 10
_MOST_FIELDS = 200
_GONE = 499
_ONCE_BYTES = 18

ApiFor = Callable[[Caller], Api]


class Dashboard:
    """Answers browsers.

    Args:
        entrance: knows who is signed in.
        api_for: the API on behalf of a caller.
        routes: the pages.
        replies: how they look.
        limits: of bodies.
        metrics: told of faults.
        log: gets one event per page, without what was asked.
    """

    def __init__(  # noqa: PLR0917  (its parts, in the order of their use)
        self,
        entrance: Entrance,
        api_for: ApiFor,
        routes: Sequence[PageRoute],
        replies: Replies,
        limits: LimitSettings,
        metrics: Metrics,
        log: RequestLog,
        now_s: Callable[[], float],
    ) -> None:
        self._entrance = entrance
        self._api_for = api_for
        self._paths = Paths(routes)
        self._replies = replies
        self._limits = limits
        self._metrics = metrics
        self._log = log
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; a fault of ours is a page that says so, and is recorded."""
        begun, request_id = time.perf_counter(), new_id("req_")
        reply = Reply(_GONE, [])
        with contextlib.suppress(ClientGone):
            try:
                reply = await self._reply(scope, receive)
            except ApiError as error:
                reply = self._replies.failed(error)
            except ClientGone:
                raise
            except Exception as error:  # noqa: BLE001  (the edge: recorded, and the browser gets a page)
                self._metrics.fault("dashboard", type(error).__name__)
                problem = "The gateway failed on this page. The fault was recorded."
                reply = self._replies.failed(ApiError(500, problem, code="fault"))
            headers = [*answer_headers(secure=is_secure(scope)), *id_headers(request_id), *reply.headers]
            await send_whole(send, reply.status, headers, b"" if scope["method"] == "HEAD" else reply.body)
        if not scope["path"].startswith(PREFIX):
            took_ms = round((time.perf_counter() - begun) * 1000, 3)
            event = {"request_id": request_id, "route": reply.route, "status": reply.status}
            self._log({**event, "actor": reply.actor, "reason": reply.reason, "latency_ms": took_ms})

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        path, method = scope["path"].rstrip("/"), "GET" if scope["method"] == "HEAD" else scope["method"]
        if path.startswith(PREFIX):
            return self._replies.asset(path)
        if path == SIGN_IN:
            return await self._sign_in(scope, receive, method)
        signed_in = await self._entrance.signed_in(scope)
        if signed_in is None:
            return _stranger(scope, path, method)
        form = await self._form(scope, receive, signed_in) if method == "POST" else {}
        if path == SIGN_OUT and method == "POST":
            await self._entrance.sign_out(signed_in)
            gone = cookie_header("", max_age_s=0, secure=is_secure(scope))
            return go(f"{SIGN_IN}?done=signed_out", gone, route="ui.sign_out", actor=signed_in.caller.actor)
        return await self._page(scope, method, (signed_in, form))

    async def _page(self, scope: Scope, method: str, who: tuple[SignedIn, Mapping[str, str]]) -> Reply:
        signed_in, form = who
        caller = signed_in.caller
        found = self._paths.find(method, scope["path"].rstrip("/").removeprefix(PATH) or "/")
        parts = {} if found is None else found.parts
        ask = PageAsk(
            caller, self._api_for(caller), parts, _query(scope), form, signed_in.form_word, self._now_s()
        )
        if found is None:
            nowhere = Problem(404, "no_such_page", "There is no page of this address.")
            return self._replies.page(ask, problem_view(nowhere), "")
        route = found.route
        try:
            caller.require(route.role, everywhere=route.everywhere)
            view = await route.page(ask)
        except ApiError as error:
            view = problem_view(Problem(error.status, error.code or error.kind, error.message))
        except ProblemError as error:
            view = problem_view(error.problem)
        if isinstance(view, Go):
            return go(view.location, route=f"ui.{route.area}", actor=caller.actor)
        return self._replies.page(ask, view, route.area)

    async def _form(self, scope: Scope, receive: Receive, signed_in: SignedIn) -> Mapping[str, str]:
        form = await self._fields(scope, receive)
        if not same_origin(scope) or not signed_in.sent_by_us(form.get("word", "")):
            problem = "This form is not one of this session's. Go back, load the page again, and repeat it."
            raise ApiError(403, problem, code="foreign_form")
        return form

    async def _fields(self, scope: Scope, receive: Receive) -> Mapping[str, str]:
        most = min(_FORM_BYTES, self._limits.body_bytes)
        raw = await read_body(receive, scope["headers"], most, self._limits.receive_s)
        if header(scope, b"content-type").partition(";")[0].strip().lower() != _FORM:
            raise ApiError(415, f"A form is sent as {_FORM}.", code="not_a_form")
        try:
            pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise ApiError(400, "The form cannot be read.", code="bad_form") from None
        return first_values(pairs)

    async def _sign_in(self, scope: Scope, receive: Receive, method: str) -> Reply:
        if method != "POST":
            if await self._entrance.signed_in(scope) is not None:
                return go(PATH, route="ui.sign_in")
            return self._replies.door({"to": _query(scope).get("to", ""), "done": _query(scope).get("done", "")})
        form = await self._fields(scope, receive)
        if not same_origin(scope):
            raise ApiError(403, "Sign in from the dashboard's own page.", code="foreign_form")
        to = form.get("to", "")
        try:
            signed_in, cookie = await self._entrance.sign_in(scope, form.get("token", "").strip())
        except ApiError as error:
            reply = self._replies.door({"problem": error.message, "to": to}, error.status)
            reply.reason = error.code or error.kind
            reply.headers += [(name.encode(), header_value(value)) for name, value in error.headers.items()]
            return reply
        inside = to if to.startswith("/") and self._paths.find("GET", to.partition("?")[0]) else ""
        return go(f"{PATH}{inside}", cookie, route="ui.sign_in", actor=signed_in.caller.actor)


def open_dashboard(
    entrance: Entrance, api: tuple[Endpoint, Once], parts: Parts, log: RequestLog, now_s: Callable[[], float]
) -> Dashboard:
    """The dashboard of one worker; reads its files from the package."""
    app, once = api
    assets = Assets.read()
    shared = {"navigation": NAVIGATION, "said": SAID, "fresh": lambda: secrets.token_urlsafe(_ONCE_BYTES)}
    replies = Replies(Renderer(assets, shared), assets)

    def api_for(caller: Caller) -> Api:
        return Api(app, once, parts.metrics, caller)

    return Dashboard(entrance, api_for, ROUTES, replies, parts.settings.limits, parts.metrics, log, now_s)


def _query(scope: Scope) -> Mapping[str, str]:
    text = scope["query_string"].decode("latin-1")
    try:
        return first_values(parse_qsl(text, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise ApiError(400, "The address cannot be read.", code="bad_address") from None


def _stranger(scope: Scope, path: str, method: str) -> Reply:
    if header(scope, b"hx-request"):
        return Reply(
            401, [(b"hx-redirect", SIGN_IN.encode()), (b"cache-control", b"no-store")], reason="signed_out"
        )
    inside, query = path.removeprefix(PATH), scope["query_string"].decode("latin-1")
    to = urlencode({"to": f"{inside}{'?' if query else ''}{query}"})
    return go(f"{SIGN_IN}?{to}" if method == "GET" and inside else SIGN_IN, reason="signed_out")
