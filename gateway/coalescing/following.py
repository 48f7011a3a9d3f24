"""What a follower does: takes what the leader relays into its own flight, and notices when nothing comes."""

import asyncio
import time
from collections import deque

from gateway.coalescing.frames import Begun, Cipher, Frame, failure_of, landing_of
from gateway.coalescing.leases import HeldBy
from gateway.flights import Failure, Flight, Landing
from gateway.routes import Target
from policies.leases import Alone, Ask, Ignore, Terms, Wait, follow, heard, next_step, taken

_MOST_WAITING = 4096


class Lost(Exception):  # noqa: N818  (no error: somebody else leads now, or nobody)
    """The leader has let go, or lost, its lease."""


class TooLarge(Exception):  # noqa: N818  (a state of the answer)
    """The leader relays no answer as large as this one."""


class Follower:
    """Follows one leader, for one flight of this worker.

    Args:
        held: who leads.
        cipher: of its lease.
        flight: gets what is relayed.
        terms: of the lease.

    Attributes:
        tries: calls that have failed.
        ended: the leader has had its last word.
    """

    def __init__(self, held: HeldBy, cipher: Cipher, flight: Flight, terms: Terms) -> None:
        self.held = held
        self._cipher = cipher
        self._flight = flight
        self._terms = terms
        self._state = follow(held.token, held.left_s, terms, time.monotonic())
        self._came: deque[bytes | None] = deque()
        self._more = asyncio.Event()
        self._renew_s = time.monotonic() + terms.lease_s
        self._gap_until_s = 0.0
        self.tries = 0
        self.ended = False

    @property
    def have(self) -> int:
        """Chunks that have come."""
        return self._state.chunks

    def take(self, sealed: bytes | None) -> None:
        """A frame came, or None: the leader is gone; what waits too long is dropped, and asked for anew."""
        if len(self._came) >= _MOST_WAITING:
            self._came.clear()
        self._came.append(sealed)
        self._more.set()

    def found_again(self, held: HeldBy) -> None:
        """Redis says that the same worker still leads, and has asked it to relay what is missing."""
        self._state = follow(held.token, held.left_s, self._terms, time.monotonic(), self._state)

    def due_to_renew(self) -> bool:
        """Whether the leader should hear that somebody still follows; once per lease."""
        now_s = time.monotonic()
        if now_s < self._renew_s:
            return False
        self._renew_s = now_s + self._terms.lease_s
        return True

    async def next(self) -> Landing | Failure | Ask | Alone | None:
        """What is to be done after the next word or silence; None when there is nothing but to listen on.

        Raises:
            Lost: the leader let go.
            TooLarge: it relays no such answer.
            FrameError: a frame was not the leader's.
        """
        step = next_step(self._state, self._terms, time.monotonic())
        if not self._came and not isinstance(step, Wait):
            return step
        if not self._came and isinstance(step, Wait):
            self._more.clear()
            try:
                async with asyncio.timeout(max(0.0, min(step.until_s, self._renew_s) - time.monotonic())):
                    await self._more.wait()
            except TimeoutError:
                return None
        return self._took(self._came.popleft())

    def _took(self, sealed: bytes | None) -> Landing | Failure | Ask | None:
        if sealed is None:
            self.ended = True
            raise Lost
        frame = self._cipher.open(sealed)
        if frame.over:
            raise TooLarge
        now_s = time.monotonic()
        verdict = heard(self._state, self.held.token, frame.position, len(frame.chunks))
        if isinstance(verdict, Ignore):
            return None
        if isinstance(verdict, Ask):
            if now_s < self._gap_until_s:
                return None
            self._gap_until_s = now_s + self._terms.beat_s
            return verdict
        self._state = taken(verdict.following, self._relay(frame, verdict.known), self._terms, now_s)
        self.ended = frame.landed is not None or frame.failed is not None
        if frame.landed is not None:
            return landing_of(frame.landed)
        if frame.failed is not None:
            self.tries = frame.failed.tries
            return failure_of(frame.failed)
        return None

    def _relay(self, frame: Frame, known: int) -> int:
        """Gives the flight what is new; returns how many chunks that was."""
        flight = self._flight
        if frame.begun is not None and flight.target is None:
            flight.begin(_target(frame.begun), frame.begun.headers)
        new = frame.chunks[known:]
        for chunk in new:
            flight.publish(chunk)
        return len(new)


def _target(begun: Begun) -> Target:
    return Target(begun.provider, begun.upstream_model, begun.label)
