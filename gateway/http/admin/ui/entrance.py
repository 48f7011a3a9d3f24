"""Who comes in: a key or token for a session, a session for a caller, each judged anew for every request."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from gateway.errors import ApiError
from gateway.http.admin.access import Access
from gateway.http.admin.attempts import Visitors, too_many
from gateway.http.admin.caller import Caller
from gateway.http.admin.ui.ended import Ended
from gateway.http.admin.ui.headers import is_secure, session_cookie
from gateway.http.admin.ui.sessions import SESSION_S, Session, Sessions, cookie_header, token_digest
from gateway.http.asgi import Scope
from gateway.redis_link import RedisLink

_MOST_CHARS = 512
_NOT_FOUND = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session and who holds it; `form_word` is what its forms send along."""

    session: Session
    caller: Caller
    form_word: str

    def sent_by_us(self, word: str) -> bool:
        """Whether a form carried the session's word."""
        return hmac.compare_digest(word.encode(), self.form_word.encode())


class Entrance:
    """Signs in and out.

    Args:
        access: judges keys and tokens, as for the API.
        sessions: makes and reads cookies.
        ended: sessions that were signed out.
        now_s: seconds since the epoch.
    """

    def __init__(self, access: Access, sessions: Sessions, ended: Ended, now_s: Callable[[], float]) -> None:
        self._access = access
        self._sessions = sessions
        self._ended = ended
        self._visitors = Visitors()
        self._now_s = now_s

    async def sign_in(self, scope: Scope, token: str) -> tuple[SignedIn, tuple[bytes, bytes]]:
        """A new session for the holder of a key or token, and the header that sets its cookie.

        Raises:
            ApiError: 429 too many attempts failed; 401 or 403 it opens nothing; 503 it cannot be judged.
        """
        now_s = self._now_s()
        wait_s = self._visitors.wait_s(scope, now_s)
        if wait_s > 0:
            raise too_many(wait_s)
        if not 0 < len(token) <= _MOST_CHARS:
            raise ApiError(401, "Enter an administrator's key or token.", code="no_token")
        digest = token_digest(token)
        try:
            caller = await self._access.of(digest)
        except ApiError as error:
            if error.status not in _NOT_FOUND:
                raise
            self._visitors.failed(scope, now_s)
            raise _refused(error) from None
        session = self._sessions.begin(digest, now_s)
        cookie = cookie_header(self._sessions.sealed(session), max_age_s=SESSION_S, secure=is_secure(scope))
        return SignedIn(session, caller, self._sessions.form_word(session)), cookie

    async def signed_in(self, scope: Scope) -> SignedIn | None:
        """Who asks; None without a session, or when what it was begun with opens nothing any more.

        Raises:
            ApiError: 503 it cannot be judged.
        """
        value = session_cookie(scope)
        session = self._sessions.opened(value, self._now_s()) if value else None
        if session is None or await self._ended.has(session):
            return None
        try:
            caller = await self._access.of(session.digest)
        except ApiError as error:
            if error.status in _NOT_FOUND:
                return None
            raise
        return SignedIn(session, caller, self._sessions.form_word(session))

    async def sign_out(self, signed_in: SignedIn) -> None:
        """Ends a session for good."""
        await self._ended.end(signed_in.session, self._now_s())


def open_entrance(access: Access, secret: bytes, link: RedisLink, now_s: Callable[[], float]) -> Entrance:
    """The entrance of one worker."""
    return Entrance(access, Sessions(secret), Ended(link), now_s)


def _refused(error: ApiError) -> ApiError:
    if error.code == "not_administrator":
        problem = "This is a tenant's key; it opens the model endpoints. Use an administrator's key or token."
    else:
        problem = "This key or token opens nothing. It may have been revoked, or have ended."
    return ApiError(error.status, problem, code=error.code, kind=error.kind)
