"""How commands ask a running gateway: where it is, with which key, and one request at a time."""

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from gateway.errors import LaminaError, SettingsError
from gateway.home import Home
from gateway.settings import Settings, load_resolved

_DEADLINE_S = 600.0


class GatewayUnreachable(LaminaError):  # noqa: N818  (a state)
    """No gateway answers, or the connection broke before its answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway said; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def problem(self) -> str:
        """The message of an error body, of a model surface's kind or the administrator's, or the status."""
        body = self.body if isinstance(self.body, dict) else {}
        error = body.get("error")
        message = error.get("message") if isinstance(error, dict) else body.get("detail")
        return str(message) if message else f"status {self.status}"


@dataclass(frozen=True, slots=True)
class GatewayClient:
    """Asks one gateway with one key; may be used from several threads."""

    url: str
    key: str = field(repr=False)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """One request.

        Raises:
            GatewayUnreachable: there was no answer.
        """
        return self._ask("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Answer:
        """One request without a body.

        Raises:
            GatewayUnreachable: there was no answer.
        """
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, data: bytes | None) -> Answer:
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310  (checked)
        try:
            with contextlib.closing(_opened(request)) as reply:
                return Answer(reply.status, _lower(reply.headers), _parsed(reply.read()))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GatewayUnreachable(f"no gateway answers at {self.url}: {reason}") from None


def gateway_url(settings: Settings, url: str | None) -> str:
    """Where the gateway is: as given, else the set that runs in this home, else where the settings say.

    Raises:
        SettingsError: the URL is none.
    """
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise SettingsError("--url takes http://HOST:PORT")
        return url.rstrip("/").removesuffix("/v1")
    running = _running(settings) or settings
    host = "127.0.0.1" if running.host in ("0.0.0.0", "::") else running.host  # noqa: S104  (a name for every one)
    return f"http://[{host}]:{running.port}" if ":" in host else f"http://{host}:{running.port}"


def administrators_key(settings: Settings) -> str:
    """The key of the settings, else the one that the set on this machine keeps in its home.

    Raises:
        SettingsError: there is none to be read.
    """
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    file = Home(settings.home.expanduser().absolute()).admin_key
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        problem = f"no administrator's key: set LAMINA_ADMIN_KEY, or let this user read {file} ({error.strerror})"
        raise SettingsError(problem) from None


def tenants_key(settings: Settings, given: str | None) -> str:
    """The key given, else `api_key` of the settings, else the bootstrap key.

    Raises:
        SettingsError: there is none.
    """
    found: SecretStr | None = settings.api_key or settings.bootstrap_key
    if given:
        return given
    if found is None:
        raise SettingsError(
            "no API key: give --key or set LAMINA_API_KEY; `lamina keys create --tenant NAME` makes one"
        )
    return found.get_secret_value()


def _running(settings: Settings) -> Settings | None:
    """The settings of the set that runs in this home, when one does and this user may read them."""
    path = Home(settings.home.expanduser().absolute()).resolved_settings
    try:
        return load_resolved(path) if path.is_file() else None
    except (OSError, SettingsError):
        return None


def _opened(request: urllib.request.Request) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=_DEADLINE_S)  # noqa: S310  (gateway_url checked the scheme)
    except urllib.error.HTTPError as error:
        return error


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
