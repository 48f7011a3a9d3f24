"""Bodies this worker has parsed lately: the same bytes mean the same request, so a hot one is parsed once."""

from dataclasses import dataclass, field
from typing import Any

from policies.keys import CacheKey
from policies.types import ChatRequest, Json

_MAX_BODIES = 1024
_MAX_BODY_BYTES = 16 << 10
_MAX_BYTES = 2 << 20


@dataclass(slots=True)
class Parsed:
    """One body, strictly parsed and read; shared by requests, so not to be changed.

    Attributes:
        body: as sent, for the controls in it.
        keys: the body's key per namespace; filled in by the pipeline.
    """

    body: Json
    request: ChatRequest
    keys: dict[tuple[Any, ...], CacheKey] = field(default_factory=dict)


class ParsedBodies:
    """Remembers up to 1,024 bodies of at most 16 KiB, 2 MiB in all, the oldest forgotten first.

    A parsed body takes up to some 25 times its bytes.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], Parsed] = {}
        self._bytes = 0

    def get(self, named: tuple[bytes, ...]) -> Parsed | None:
        """What these very bytes, and the headers read with them, were parsed to."""
        return self._known.get(named)

    def put(self, named: tuple[bytes, ...], parsed: Parsed) -> None:
        """Remembers a body unless it is large."""
        size = _size(named)
        if size > _MAX_BODY_BYTES or named in self._known:
            return
        self._known[named] = parsed
        self._bytes += size
        while len(self._known) > _MAX_BODIES or self._bytes > _MAX_BYTES:
            oldest = next(iter(self._known))
            self._bytes -= _size(oldest)
            del self._known[oldest]


def _size(named: tuple[bytes, ...]) -> int:
    return sum(map(len, named))
