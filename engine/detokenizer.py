"""Token bytes to text as it grows: whole characters only, stop strings cut exactly."""

import codecs
from collections.abc import Sequence


class OutputText:
    """Text of one answer; nothing of the prompt enters it.

    Bytes of an unfinished character wait for the rest of it. Of the text, only the longest suffix that is a proper
    prefix of a stop string is held back. The result does not depend on where token borders fall: a stop string is
    found as if characters came one by one, so the match that is complete first wins, and of those the longest.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = tuple(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped = False

    def push(self, piece: bytes, may_stop: bool = True) -> str:
        """Take the next token's bytes; return the text that may be shown now.

        Args:
            piece: any bytes, none included.
            may_stop: whether stop strings count yet; text pushed before they do is no part of one.

        Side effects: sets `stopped` when a stop string is complete; later pushes return nothing.
        """
        if self.stopped:
            return ""
        fresh = self._decoder.decode(piece)
        return self._release(fresh) if may_stop else fresh

    def finish(self) -> str:
        """Return what was held back; an unfinished character becomes U+FFFD. Call once, at the end."""
        if self.stopped:
            return ""
        shown = self._release(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return shown + held

    def _release(self, fresh: str) -> str:
        text = self._held + fresh
        if not self._stop or not text:
            self._held = ""
            return text
        cut = self._first_match(text)
        if cut is not None:
            self.stopped = True
            self._held = ""
            return text[:cut]
        keep = len(text) - self._overlap(text)
        self._held = text[keep:]
        return text[:keep]

    def _first_match(self, text: str) -> int | None:
        found = [(start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0]
        return min(found)[1] if found else None

    def _overlap(self, text: str) -> int:
        longest = min(len(text), max(len(stop) for stop in self._stop) - 1)
        for size in range(longest, 0, -1):
            tail = text[-size:]
            if any(len(stop) > size and stop.startswith(tail) for stop in self._stop):
                return size
        return 0
