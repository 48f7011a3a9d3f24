"""Where a prompt leaves the one before it, which volatile field did it, and what that costs."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from policies.doctor.parts import Part
from policies.doctor.volatile import common_prefix, sameness, value_at

HEALTHY = frozenset({"continued", "repeated", "question", "first"})
"""Kinds that cost nothing: the prompt goes on, or asks something else behind what both share."""

_MOST_MASKED = 32
_SHORT_CHARS = 48


class Divergence(msgspec.Struct, frozen=True):
    """What was found in a prompt beside the one before it.

    Attributes:
        kind: why they diverge; see `remedies`.
        path: of the part.
        at: characters into the part.
        kept_chars: that both begin with, and a prefix cache can reuse.
        lost_chars: behind the divergence that both have all the same, and that have to be computed again.
        before, now: what stands there in either, shortened; texts of the user, so never for a log.
    """

    kind: str
    path: str
    at: int
    kept_chars: int
    lost_chars: int
    before: str = ""
    now: str = ""


def diverge(before: Sequence[Part], now: Sequence[Part]) -> Divergence:
    """The first place at which the second prompt leaves the first."""
    equal = _equal_parts(before, now)
    kept = sum(len(part.text) for part in now[:equal])
    if equal == len(before):
        return Divergence("repeated" if equal == len(now) else "continued", "", 0, kept, 0)
    if equal == len(now):
        return Divergence("truncated", before[equal].path, 0, kept, 0)
    one, other = before[equal], now[equal]
    at = common_prefix(one.text, other.text) if one.path == other.path else 0
    kind, lost = _judge(before[equal:], now[equal:], at)
    window = slice(max(0, at - 8), at + _SHORT_CHARS)
    return Divergence(kind, other.path, at, kept + at, lost, one.text[window], other.text[window])


def _equal_parts(before: Sequence[Part], now: Sequence[Part]) -> int:
    for place, (one, other) in enumerate(zip(before, now, strict=False)):
        if one.digest != other.digest or one.room != other.room:
            return place
    return min(len(before), len(now))


def _judge(before: Sequence[Part], now: Sequence[Part], at: int) -> tuple[str, int]:
    """Kind, and the characters behind the divergence that are lost."""
    one, other = before[0], now[0]
    if one.room != other.room:
        return ("tools" if "tools" in {one.room, other.room} else "template"), _shared(before, now)
    if one.room == "tools":
        return _tools(before, now), _shared(before, now)
    if one.room == "turns":
        dropped = _dropped(before, now)
        if dropped:
            return "truncated", _chars(now[: len(before) - dropped])
    kind, masked = _masked(one.text, other.text, at)
    behind = _chars(now[1 : 1 + _equal_parts(before[1:], now[1:])])
    if kind is not None:
        return kind, masked + behind
    if one.room == "turns":
        return ("edited", behind) if behind else ("question", 0)
    return "variable", _suffix(one.text, other.text, at) + behind


def _masked(one: str, other: str, at: int) -> tuple[str | None, int]:
    """Kind of the first volatile value, and what both share behind it and those that follow."""
    same = sameness(one, other)
    if same is not None:
        return same, len(other) - at
    kind, shared = None, 0
    for _ in range(_MOST_MASKED):
        found = value_at(one, other, at)
        if found is None:
            break
        kind = kind or found[0]
        ours, theirs = one[found[1] :], other[found[2] :]
        at = common_prefix(ours, theirs)
        shared += at
        if at == len(ours) or at == len(theirs):
            break
        one, other = ours, theirs
    return kind, shared


def _tools(before: Sequence[Part], now: Sequence[Part]) -> str:
    ours, theirs = (Counter(part.digest for part in side if part.room == "tools") for side in (before, now))
    if ours == theirs:
        return "tools_order"
    one, other = before[0].text, now[0].text
    found = value_at(one, other, common_prefix(one, other))
    return "json_order" if found is not None and found[0] == "json_order" else "tools"


def _dropped(before: Sequence[Part], now: Sequence[Part]) -> int:
    """How many leading turns the second prompt leaves out of the first; 0 when it is no such case."""
    for count in range(1, len(before)):
        if before[count].digest == now[0].digest:
            rest = len(before) - count
            return count if _equal_parts(before[count:], now) == min(rest, len(now)) else 0
    return 0


def _shared(before: Sequence[Part], now: Sequence[Part]) -> int:
    """Characters of the second prompt's parts that the first holds too, in any order."""
    known = Counter(part.digest for part in before)
    shared = 0
    for part in now:
        if known[part.digest] > 0:
            known[part.digest] -= 1
            shared += len(part.text)
    return shared


def _suffix(one: str, other: str, at: int) -> int:
    return common_prefix(one[at:][::-1], other[at:][::-1])


def _chars(parts: Sequence[Part]) -> int:
    return sum(len(part.text) for part in parts)
