"""What a leader does for followers: seats them, relays what comes as it comes, beats, and has the last word."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from gateway.coalescing.frames import Begun, Cipher, Frame, FrameError, begun_of, failed_of, landed_of
from gateway.coalescing.leases import Lease
from gateway.flights import Failure, Flight, Landing, Passenger
from policies.leases import Terms

FRAME, GONE = b"F", b"G"
_FRAME_BYTES = 256 << 10
_MOST_SEATS = 1024


@dataclass(frozen=True, slots=True)
class Outlets:
    """What a leader needs besides its lease.

    Attributes:
        answer_bytes: larger answers are not relayed.
        send: sends a message to a channel, lease or no lease.
        on_fault: told why something could not be relayed.
    """

    answer_bytes: int
    send: Callable[[str, bytes], None]
    on_fault: Callable[[str], None]


class Leading:
    """One led flight. Costs a beat now and then as long as nobody follows, and nothing is sealed before.

    Args:
        lease: this worker's.
        cipher: of the lease.
        flight: the call; a follower holds a place on it, so that it goes on when the leader's own clients leave.
        terms: of the lease.
        outlets: see Outlets.
    """

    def __init__(self, lease: Lease, cipher: Cipher, flight: Flight, terms: Terms, outlets: Outlets) -> None:
        self.lease = lease
        self._cipher = cipher
        self._flight = flight
        self._terms = terms
        self._outlets = outlets
        self._loop = asyncio.get_running_loop()
        self._seats: dict[str, float] = {}
        self._place: Passenger | None = None
        self._told = 0
        self._bytes = 0
        self._counted = 0
        self._begun_told = False
        self._last: Frame | None = None
        self._flushing = False
        self._ended: tuple[list[dict[str, object]], Begun | None] | None = None
        self._timer = self._loop.call_later(terms.beat_s, self._beat)

    @property
    def spoke(self) -> bool:
        """Whether there was a last word."""
        return self._last is not None

    def seat(self, inbox: str, have: int) -> None:
        """Takes in a follower, or hears again of one, and tells it what it lacks."""
        if inbox not in self._seats and len(self._seats) >= _MOST_SEATS:
            return
        self._flush()
        self._seats[inbox] = time.monotonic() + self._terms.seat_s
        if self._ended is None and self._place is None:
            self._place = self._flight.board()
            self._flight.watch = self._changed
        self._answer(inbox, min(have, self._told))

    def unseat(self, inbox: str) -> None:
        """A follower has left; the last one out stops the call when nobody is aboard here either."""
        self._seats.pop(inbox, None)
        if not self._seats:
            self._leave()

    def _leave(self) -> None:
        if self._place is not None:
            self._flight.watch = None
            self._place.leave()
            self._place = None

    def _answer(self, inbox: str, have: int) -> None:
        """Everything so far from one chunk on, in frames of bounded size, to one follower."""
        if self._too_large():
            self._send(Frame(over=True), [inbox])
            return
        chunks = self._chunks[have : self._told]
        begun = self._begun()
        self._send_chunks(have, chunks, begun, [inbox])
        if self._last is not None:
            self._send(self._last, [inbox])

    @property
    def _chunks(self) -> list[dict[str, object]]:
        """Of this call alone: the flight may be on another one once this one is over."""
        return self._flight.chunks if self._ended is None else self._ended[0]

    def _begun(self) -> Begun | None:
        if self._ended is not None:
            return self._ended[1]
        target = self._flight.target
        return None if target is None else begun_of(target, self._flight.headers)

    def _changed(self) -> None:
        if not self._flushing and self._last is None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Tells all followers what has come since."""
        self._flushing = False
        chunks = self._chunks[self._told :]
        begun = None if self._begun_told else self._begun()
        if not self._seats:
            self._told = len(self._chunks)
            return
        if not chunks and begun is None:
            return
        self._begun_told = self._begun_told or begun is not None
        position, self._told = self._told, self._told + len(chunks)
        if self._too_large():
            self._send(Frame(over=True), list(self._seats))
        else:
            self._send_chunks(position, chunks, begun, list(self._seats))

    def _too_large(self) -> bool:
        new = self._chunks[self._counted : self._told]
        self._counted = max(self._counted, self._told)
        self._bytes += sum(map(_size, new))
        return self._bytes > self._outlets.answer_bytes

    def _send_chunks(
        self, position: int, chunks: list[dict[str, object]], begun: Begun | None, inboxes: list[str]
    ) -> None:
        part: list[dict[str, object]] = []
        size = 0
        for chunk in chunks:
            part.append(chunk)
            size += _size(chunk)
            if size >= _FRAME_BYTES:
                self._send(Frame(position, tuple(part), begun), inboxes)
                position, part, size, begun = position + len(part), [], 0, None
        self._send(Frame(position, tuple(part), begun), inboxes)

    def _send(self, frame: Frame, inboxes: list[str]) -> None:
        try:
            sealed = self._cipher.seal(frame)
        except FrameError as error:
            self._outlets.on_fault(f"frame_{error}")
            sealed = self._cipher.seal(Frame(over=True))
        message = FRAME + self.lease.token.encode() + sealed
        if self._ended is None:
            self.lease.tell(inboxes, message)
            return
        for inbox in inboxes:  # who asks now had found the lease held: the answer is its own
            self._outlets.send(inbox, message)

    def _beat(self) -> None:
        now_s = time.monotonic()
        held = self.lease.held
        for inbox in [inbox for inbox, until_s in self._seats.items() if until_s < now_s or not held]:
            self.unseat(inbox)
        if self._last is None:
            self._timer = self._loop.call_later(self._terms.beat_s, self._beat)
            if self._seats:
                self._send(Frame(self._told), list(self._seats))
            else:
                self.lease.tell()

    def landed(self, landing: Landing) -> None:
        """The last word: the answer is whole."""
        if self._seats and _response_size(landing) > self._outlets.answer_bytes:
            self._end(Frame(over=True))
        else:
            self._end(Frame(len(self._flight.chunks), landed=landed_of(landing)))

    def failed(self, failure: Failure, tries: int) -> None:
        """The last word: the call failed."""
        self._end(Frame(len(self._flight.chunks), failed=failed_of(failure, tries)))

    def _end(self, last: Frame) -> None:
        self._flush()
        self._last = last
        if self._seats:
            self._send(last, list(self._seats))
        self.lease.let_go()
        self._close()

    def gone(self) -> None:
        """There is no last word: followers ask who leads now."""
        self.lease.tell(list(self._seats), GONE + self.lease.token.encode())
        self.lease.let_go()
        self._close()

    def _close(self) -> None:
        self._ended = list(self._flight.chunks), self._begun()
        self._timer.cancel()
        self._leave()


def _size(chunk: dict[str, object]) -> int:
    return len(orjson.dumps(chunk))


def _response_size(landing: Landing) -> int:
    return sum(len(orjson.dumps(choice.message)) for choice in landing.response.choices)
