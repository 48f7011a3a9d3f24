"""Who may use the administrator's routes; asked before anything else of a request is looked at."""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.db.records import TokenRecord
from gateway.errors import ApiError, DatabaseUnavailable
from gateway.http.admin.attempts import Visitors, too_many
from gateway.http.admin.caller import Caller
from gateway.http.asgi import Scope
from gateway.http.edge import bearer_digest
from policies.types import Principal

Authenticate = Callable[[bytes], Awaitable[Principal]]
"""Who owns a tenant's key, by its digest; raises ApiError for a key of nobody."""

ROOT = Caller("admin", "admin")
"""The holder of the setting admin_key."""

_MOST_WRONG = 100
_MOST_KNOWN = 1000
_NOBODYS = 401


class Tokens(Protocol):
    """Finds tokens; may raise DatabaseUnavailable."""

    async def by_digest(self, digest: bytes) -> TokenRecord | None:
        """The token with this digest, also one that opens nothing any more."""
        ...


class Access:
    """Lets the administrator and the holders of tokens in, and nobody else.

    Args:
        key: the administrator's, or None, which is nobody's. Only its digest is kept.
        tokens: asked for every other key, anew for each request, so a revoked token is shut out at once.
        authenticate: of tenants' keys, which are told apart from keys of nobody.
        now_s: seconds since the epoch.
    """

    def __init__(
        self, key: str | None, tokens: Tokens, authenticate: Authenticate, now_s: Callable[[], float]
    ) -> None:
        self._digest = hashlib.sha256(key.encode()).digest() if key else None
        self._tokens = tokens
        self._authenticate = authenticate
        self._now_s = now_s
        self._visitors = Visitors(_MOST_WRONG)
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def check(self, scope: Scope) -> Caller:
        """Who asks. Where too many keys of nobody come from, those that opened something before are judged as
        ever, and so is the administrator's; any other has to wait, and no database is asked for it.

        Raises:
            ApiError: 401 without a key or for one of nobody, 403 for a tenant's, 429 after too many of nobody, 503
                when that cannot be judged.
        """
        try:
            digest = bearer_digest(scope["headers"])
        except ApiError:
            raise _unknown() from None
        now_s = self._now_s()
        wait_s = self._visitors.wait_s(scope, now_s)
        if wait_s > 0 and digest not in self._known and not self._is_root(digest):
            raise too_many(wait_s)
        try:
            caller = await self.of(digest)
        except ApiError as error:
            if error.status == _NOBODYS:
                self._known.pop(digest, None)
                self._visitors.failed(scope, now_s)
            raise
        self._remember(digest)
        return caller

    def _remember(self, digest: bytes) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _is_root(self, digest: bytes) -> bool:
        return self._digest is not None and hmac.compare_digest(digest, self._digest)

    async def of(self, digest: bytes) -> Caller:
        """Who holds the key with this SHA-256.

        Raises:
            ApiError: as `check`.
        """
        if self._is_root(digest):
            return ROOT
        try:
            token = await self._tokens.by_digest(digest)
        except DatabaseUnavailable:
            raise _cannot_judge() from None
        if token is not None:
            if not token.opens(self._now_s()):
                raise _unknown()
            return Caller(f"token:{token.token_id}", token.role, token.tenants)
        raise await self._refusal(digest)

    async def _refusal(self, digest: bytes) -> ApiError:
        try:
            await self._authenticate(digest)
        except ApiError as error:
            return _cannot_judge() if error.kind == "server_error" else _unknown()
        return ApiError(
            403,
            "A tenant's key opens no administrator's route. Send the administrator's key, or a token: "
            "`lamina tokens create` makes one.",
            code="not_administrator",
            kind="permission_error",
        )


def _unknown() -> ApiError:
    return ApiError(
        401,
        "Send the administrator's key or a token as `Authorization: Bearer …`. The key is the setting admin_key, "
        "which an embedded set keeps in the file admin_key of its home; `lamina tokens create` makes tokens.",
        code="invalid_admin_key",
        headers={"www-authenticate": "Bearer"},
    )


def _cannot_judge() -> ApiError:
    return ApiError(
        503,
        "Tokens cannot be checked right now: the database does not answer. Try again shortly.",
        code="auth_unavailable",
        kind="server_error",
        headers={"retry-after": "1"},
    )
