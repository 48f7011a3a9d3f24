"""What a leader relays, sealed: readable and forgeable by nobody but the workers of the set.

MessagePack, encrypted as policies.encryption does, under a key derived per tenant from the master secret, and for
one lease: a frame opens under no other. Nothing of it is stored.
"""

import os
from typing import Any

import msgspec

from gateway.errors import ApiError, UpstreamError
from gateway.flights import Landing
from gateway.layers.entry import derive
from gateway.routes import Target
from policies.decide import Discard, Store
from policies.encryption import FRESH_BYTES, UnsealError, context, open_sealed, seal
from policies.types import ChatResponse


class Landed(msgspec.Struct, frozen=True, array_like=True):
    """The end of an answer: whole, and stored for this long, or not for this reason."""

    response: ChatResponse
    ttl_s: float | None
    reason: str


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """The end of a call that failed; `reason` is empty for an error of our own.

    Attributes:
        tries: calls so far.
    """

    reason: str
    status: int
    body: dict[str, Any]
    headers: dict[str, str]
    tries: int


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """Who answers, and upstream headers to relay."""

    provider: str
    upstream_model: str
    label: str
    headers: dict[str, str]


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One word of a leader; with nothing in it, a sign of life.

    Attributes:
        position: number of the first chunk.
        over: the answer is too large to be relayed.
    """

    position: int = 0
    chunks: tuple[dict[str, Any], ...] = ()
    begun: Begun | None = None
    landed: Landed | None = None
    failed: Failed | None = None
    over: bool = False


class FrameError(ValueError):
    """Not a frame of this tenant and lease, or not what a frame is."""


class Cipher:
    """Seals and opens the frames of one lease."""

    def __init__(self, secret: bytes, tenant_id: str, lease_key: str, token: str) -> None:
        self._key = derive(secret, "relay", tenant_id)
        self._place = context("relay", lease_key, token)

    def seal(self, frame: Frame) -> bytes:
        """The bytes to relay.

        Raises:
            FrameError: the answer holds what MessagePack cannot.
        """
        try:
            plain = msgspec.msgpack.encode(frame)
        except (OverflowError, TypeError, msgspec.MsgspecError, RecursionError):
            raise FrameError("encode") from None
        return seal(self._key, self._place, plain, os.urandom(FRESH_BYTES))

    def open(self, sealed: bytes) -> Frame:
        """The frame.

        Raises:
            FrameError: another lease's, changed, or not decodable.
        """
        try:
            return msgspec.msgpack.decode(open_sealed(self._key, self._place, sealed), type=Frame)
        except UnsealError:
            raise FrameError("seal") from None
        except (msgspec.MsgspecError, RecursionError):
            raise FrameError("decode") from None


def begun_of(target: Target, headers: Any) -> Begun:
    """How an answer began."""
    return Begun(target.provider, target.upstream_model, target.label, dict(headers))


def landed_of(landing: Landing) -> Landed:
    """How it ended."""
    decision = landing.decision
    if isinstance(decision, Store):
        return Landed(landing.response, decision.ttl_s, "")
    return Landed(landing.response, None, decision.reason)


def landing_of(landed: Landed) -> Landing:
    """The same, as the leader had it."""
    decision = Discard(landed.reason) if landed.ttl_s is None else Store(landed.ttl_s)
    return Landing(landed.response, decision)


def failed_of(failure: UpstreamError | ApiError, tries: int) -> Failed:
    """How a call failed."""
    if isinstance(failure, UpstreamError):
        return Failed(failure.reason, failure.status, dict(failure.body), dict(failure.headers), tries)
    body = {"message": failure.message, "code": failure.code, "param": failure.param, "kind": failure.kind}
    return Failed("", failure.status, body, dict(failure.headers), tries)


def failure_of(failed: Failed) -> UpstreamError | ApiError:
    """The same, as the leader had it."""
    if failed.reason in _REASONS:
        return UpstreamError(_REASONS[failed.reason], failed.status, failed.body, failed.headers)
    body = failed.body
    message, kind = str(body.get("message")), str(body.get("kind"))
    return ApiError(failed.status, message, body.get("code"), body.get("param"), kind, failed.headers)


_REASONS: dict[str, Any] = {
    name: name for name in ("connect", "timeout", "status", "cut", "protocol", "credentials")
}
