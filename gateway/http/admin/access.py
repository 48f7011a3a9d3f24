"""Who may use the administrator's routes. One check; roles and narrower tokens belong here."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from gateway.errors import ApiError
from gateway.http.asgi import Headers
from gateway.http.edge import bearer_digest
from policies.types import Principal

Authenticate = Callable[[bytes], Awaitable[Principal]]
"""Who owns a tenant's key, by its digest; raises ApiError for a key of nobody."""


class Access:
    """Lets the administrator in and nobody else; without an administrator's key nobody at all.

    Args:
        key: the administrator's, or None. Only its digest is kept.
        authenticate: of tenants' keys, which are told apart from keys of nobody.
    """

    def __init__(self, key: str | None, authenticate: Authenticate) -> None:
        self._digest = hashlib.sha256(key.encode()).digest() if key else None
        self._authenticate = authenticate

    async def check(self, headers: Headers) -> None:
        """Returns for the administrator.

        Raises:
            ApiError: 401 without a key or for one of nobody, 403 for a tenant's.
        """
        try:
            digest = bearer_digest(headers)
        except ApiError:
            raise _unknown() from None
        if self._digest is not None and hmac.compare_digest(digest, self._digest):
            return
        try:
            await self._authenticate(digest)
        except ApiError:
            raise _unknown() from None
        raise ApiError(
            403,
            "A tenant's key opens no administrator's route.",
            code="not_administrator",
            kind="permission_error",
        )


def _unknown() -> ApiError:
    return ApiError(
        401,
        "Send the administrator's key as `Authorization: Bearer …`: the setting admin_key, which an embedded set "
        "keeps in the file admin_key of its home.",
        code="invalid_admin_key",
        headers={"www-authenticate": "Bearer"},
    )
