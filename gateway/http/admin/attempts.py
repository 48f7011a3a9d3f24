"""How often somebody may come with a key that opens nothing; counted by this worker, in bounded memory."""

import math
from collections import OrderedDict

from gateway.errors import ApiError
from gateway.http.asgi import Scope

MOST_FAILURES = 10
WINDOW_S = 60.0
_PEERS_FACTOR = 10
"""A peer may be a proxy with many addresses behind it."""
_MOST_ADDRESSES = 10_000
_ADDRESS_CHARS = 64


class Attempts:
    """Counts failed attempts by address over a fixed window.

    Args:
        most: how many may fail in a window.
    """

    def __init__(self, most: int = MOST_FAILURES) -> None:
        self._most = most
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        began_s, count = self._failed.get(address, (now_s, 0))
        left_s = began_s + WINDOW_S - now_s
        return max(left_s, 0.0) if count >= self._most and left_s <= WINDOW_S else 0.0

    def failed(self, address: str, now_s: float) -> None:
        """An attempt failed."""
        began_s, count = self._failed.pop(address, (now_s, 0))
        if not 0 <= now_s - began_s < WINDOW_S:
            began_s, count = now_s, 0
        self._failed[address] = (began_s, count + 1)
        if len(self._failed) > _MOST_ADDRESSES:
            self._failed.popitem(last=False)


class Visitors:
    """Counts the failed attempts of whoever sends requests: by peer and, below it, by what a proxy says of its own
    peer. Without a proxy a client may say anything there, so its peer is held to ten times as many.

    Args:
        most: how many of one address may fail in a window.
    """

    def __init__(self, most: int = MOST_FAILURES) -> None:
        self._addresses = Attempts(most)
        self._peers = Attempts(most * _PEERS_FACTOR)

    def wait_s(self, scope: Scope, now_s: float) -> float:
        """Seconds until whoever sent this may try again; 0 when they may now."""
        peer = _peer(scope)
        own_s = self._addresses.wait_s(f"{peer} {_forwarded(scope)}", now_s)
        return max(own_s, self._peers.wait_s(peer, now_s))

    def failed(self, scope: Scope, now_s: float) -> None:
        """An attempt failed."""
        peer = _peer(scope)
        self._addresses.failed(f"{peer} {_forwarded(scope)}", now_s)
        self._peers.failed(peer, now_s)


def too_many(wait_s: float) -> ApiError:
    """What somebody is told who has to wait."""
    seconds = math.ceil(wait_s)
    problem = f"Too many attempts failed. Try again in {seconds} seconds."
    headers = {"retry-after": str(seconds)}
    return ApiError(429, problem, code="too_many_attempts", kind="rate_limit_error", headers=headers)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "-"


def _forwarded(scope: Scope) -> str:
    """The last that is said: the proxy nearest to us says it, be it in a header of its own."""
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return said[-1].decode("latin-1").rpartition(",")[2].strip()[:_ADDRESS_CHARS] if said else ""
