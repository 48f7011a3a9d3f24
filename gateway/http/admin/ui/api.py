"""The administrator's API, asked in process: the same routes, roles, records and audit, without a socket."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode

import orjson

from gateway.http.admin.asked import AdminAsk
from gateway.http.admin.caller import Caller
from gateway.http.admin.frame import PREFIX
from gateway.http.admin.once import Once
from gateway.http.asgi import Endpoint, Headers, Message
from gateway.telemetry.metrics import Metrics

Query = Mapping[str, str | int | list[str] | None]
_FIRST_ERROR = 400


@dataclass(frozen=True, slots=True)
class Problem:
    """What the API refused, or could not do.

    Attributes:
        param: the field at fault, where there is one.
    """

    status: int
    code: str
    detail: str
    param: str = ""

    @property
    def absent(self) -> bool:
        """Whether this worker has no such route."""
        return self.code == "no_such_route"


class ProblemError(Exception):
    """A page cannot be made without what the API did not tell."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Told:
    """What the API told.

    Attributes:
        data: the decoded body; empty where there is none or a problem.
        problem: None when all went well.
    """

    data: Any
    problem: Problem | None = None

    @property
    def items(self) -> list[Any]:
        """A list's entries; none where there is a problem."""
        found = self.data.get("items", [])
        return found if isinstance(found, list) else []


class Api:
    """Asks for one caller.

    Args:
        app: the API's application.
        once: keeps what idempotency keys need.
        metrics: told of faults.
        caller: on whose behalf.
    """

    def __init__(self, app: Endpoint, once: Once, metrics: Metrics, caller: Caller) -> None:
        self._app = app
        self._once = once
        self._metrics = metrics
        self.caller = caller

    async def get(self, path: str, query: Query | None = None) -> Told:
        """Reads; never raises for what the API refuses."""
        return await self._ask("GET", path, query or {}, None, "")

    async def must(self, path: str, query: Query | None = None) -> Any:
        """Reads what a page cannot do without.

        Raises:
            ProblemError: the API did not tell it.
        """
        told = await self.get(path, query)
        if told.problem is not None:
            raise ProblemError(told.problem)
        return told.data

    async def change(self, method: str, path: str, body: Mapping[str, Any] | None = None, once: str = "") -> Told:
        """Changes something; `once` is an idempotency key."""
        return await self._ask(method, path, {}, body, once)

    async def _ask(self, method: str, path: str, query: Query, body: Mapping[str, Any] | None, once: str) -> Told:
        raw = b"" if body is None else orjson.dumps(body)
        ask = AdminAsk(self.caller, raw, self._once)
        sent: list[Message] = []
        waiting = [raw]

        async def receive() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)
            sent.append(message)

        try:
            await self._app(_scope(method, path, query, _headers(raw, once), ask), receive, send)
        except Exception as error:  # noqa: BLE001  (recorded; the page says which part it lacks)
            self._metrics.fault("dashboard", type(error).__name__)
        return _told(sent)


def path_of(*parts: str) -> str:
    """A path of the API whose parts are quoted."""
    return "/".join(quote(part, safe="") for part in parts)


def _headers(raw: bytes, once: str) -> Headers:
    headers: Headers = [(b"host", b"lamina"), (b"accept", b"application/json")]
    if raw:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(raw))]
    if once:
        headers.append((b"idempotency-key", once.encode("ascii", "replace")))
    return headers


def _scope(method: str, path: str, query: Query, headers: Headers, ask: AdminAsk) -> dict[str, Any]:
    from_root = f"{PREFIX}/{path}"
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": unquote(from_root),
        "raw_path": from_root.encode("ascii", "replace"),
        "root_path": "",
        "query_string": urlencode(given, doseq=True).encode(),
        "headers": headers,
        "client": None,
        "server": ("lamina", 80),
        AdminAsk.IN_SCOPE: ask,
    }


def _told(sent: list[Message]) -> Told:
    status = sent[0]["status"] if sent else 500
    raw = b"".join(message.get("body", b"") for message in sent[1:])
    try:
        data = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError:
        data = {}
    said: dict[str, Any] = data if isinstance(data, dict) else {}
    if status < _FIRST_ERROR:
        return Told(said)
    detail = said.get("detail", "The gateway failed on this request.")
    return Told({}, Problem(status, said.get("code", "fault"), detail, said.get("param", "")))
