"""What became of a prompt in the cache, as `usage` and a header tell it."""

from collections.abc import Sequence
from typing import Any

from engine.kv.wishes import Breakpoint
from engine.prompt_use import PromptUse

MISS_HEADER = b"x-lamina-prefix-miss"

_UNITS = ((3600, "h"), (60, "m"), (1, "s"))

Json = dict[str, Any]


def prompt_details(use: PromptUse, breakpoints: Sequence[Breakpoint]) -> Json:
    """`prompt_tokens_details`: tokens read, tokens written, these by the life asked for them, and the miss.

    Read, written and the tokens that are neither add up to the prompt. Where they were read from is told when some
    came from the host's memory.

    Args:
        use: of the prompt.
        breakpoints: that the request marked, ascending.
    """
    details: Json = {
        "cached_tokens": use.cached,
        "cache_write_tokens": use.written,
        "cache_write_tokens_details": written_by_life(use, breakpoints),
    }
    if use.host:
        details["cached_tokens_details"] = {"device": use.cached - use.host, "host": use.host}
    if use.miss is not None:
        details["miss"] = {"reason": use.miss} | ({} if use.missed_at is None else {"at": use.missed_at})
    return details


def written_by_life(use: PromptUse, breakpoints: Sequence[Breakpoint]) -> dict[str, int]:
    """Written tokens that a breakpoint covers, by the longest life among those that do ("ttl_5m_tokens" …).

    Only those count that a prompt which goes on differently behind the breakpoint can read.
    """
    lives: dict[str, int] = {}
    end = use.cached + use.written
    ends = [one.tokens // use.unit * use.unit for one in breakpoints]
    for index, point in enumerate(ends):
        start = max(use.cached, ends[index - 1] if index else 0)
        tokens = min(end, point) - start
        name = f"ttl_{_short(max(later.ttl_s for later in breakpoints[index:]))}_tokens"
        lives[name] = lives.get(name, 0) + max(0, tokens)
    return lives


def miss_header(use: PromptUse | None) -> list[tuple[bytes, bytes]]:
    """`x-lamina-prefix-miss: differs; at=37`; none when nothing was missing."""
    if use is None or use.miss is None:
        return []
    at = "" if use.missed_at is None else f"; at={use.missed_at}"
    return [(MISS_HEADER, f"{use.miss}{at}".encode())]


def _short(seconds: float) -> str:
    whole = int(seconds)
    size, unit = next((size, unit) for size, unit in _UNITS if whole % size == 0)
    return f"{whole // size}{unit}"
