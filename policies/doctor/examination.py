"""Prompts in their order: each beside the recent one it was built like, and what was found summed up."""

import re
from collections import OrderedDict, deque

import msgspec

from policies.doctor.divergence import HEALTHY, Divergence, diverge
from policies.doctor.parts import Part

CHARS_PER_TOKEN = 4.0
"""Where a request's tokens are not known."""

MOST_PROMPTS = 64
MOST_CHARS = 16 << 20
"""Of all recent prompts that are kept."""

_MOST_GROUPS = 256
_LEAST_SHARED = 0.2
_BEGINNING_CHARS = 2_000
_MOST_READ = 8
"""Recent prompts whose beginning is compared word by word, where no part of them is equal."""

_LEAST_TOKENS = 16.0
_NUMBERED = re.compile(r"\[\d+\]")


class Seen(msgspec.Struct, frozen=True):
    """A prompt that came.

    Attributes:
        group: what it may be compared within: tenant and model.
        parts: see `parts_of`.
        prompt_tokens: as the model counted them; 0 when not known.
        t_s: when, seconds from any beginning.
    """

    group: tuple[str, str]
    parts: tuple[Part, ...]
    prompt_tokens: int = 0
    t_s: float = 0.0

    @property
    def chars(self) -> int:
        """Of all parts."""
        return sum(len(part.text) for part in self.parts)


class Finding(msgspec.Struct, frozen=True):
    """One prompt's divergence in tokens, estimated by its characters where the model did not count them.

    Attributes:
        place: path of the part, turns not told apart.
        tokens: of the whole prompt.
        kept_tokens: that a prefix cache can reuse.
        lost_tokens: that it could, were it not for the divergence.
    """

    group: tuple[str, str]
    divergence: Divergence
    place: str
    tokens: float
    kept_tokens: float
    lost_tokens: float

    @property
    def healthy(self) -> bool:
        """Whether nothing is lost that could be kept."""
        return self.divergence.kind in HEALTHY or self.lost_tokens < _LEAST_TOKENS


class Doctor:
    """Compares prompts as they come; keeps the recent ones in memory and nothing else. Not for several threads."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[str, str], deque[_Kept]] = OrderedDict()
        self._chars = 0

    def see(self, seen: Seen) -> Finding:
        """What is found in a prompt; `first` when it is built like none of the recent ones."""
        kept = _kept(seen)
        before = self._likest(kept)
        divergence = Divergence("first", "", 0, 0, 0) if before is None else diverge(before.parts, seen.parts)
        self._keep(kept)
        chars = max(1, seen.chars)
        per_char = (seen.prompt_tokens or chars / CHARS_PER_TOKEN) / chars
        lost = 0 if divergence.kind in HEALTHY else divergence.lost_chars
        return Finding(
            seen.group,
            divergence,
            _place(divergence.path),
            chars * per_char,
            divergence.kept_chars * per_char,
            lost * per_char,
        )

    def _likest(self, now: "_Kept") -> Seen | None:
        """The recent prompt with the most in common, the latest of several."""
        best, most, read = None, _LEAST_SHARED * max(1, now.chars), 0
        digests = {part.digest: len(part.text) for part in now.seen.parts}
        for other in reversed(self._recent.get(now.seen.group, ())):
            common = sum(digests.get(part.digest, 0) for part in other.seen.parts)
            if common <= most and read < _MOST_READ:
                read += 1
                common += _likeness(other, now)
            if common > most:
                best, most = other.seen, float(common)
        return best

    def _keep(self, kept: "_Kept") -> None:
        """Keeps the prompt; the oldest of its group go when there are many, of the idlest without room."""
        recent = self._recent.setdefault(kept.seen.group, deque())
        self._recent.move_to_end(kept.seen.group)
        recent.append(kept)
        self._chars += kept.chars
        if len(recent) > MOST_PROMPTS:
            self._chars -= recent.popleft().chars
        while self._chars > MOST_CHARS or len(self._recent) > _MOST_GROUPS:
            group, idlest = next(iter(self._recent.items()))
            self._chars -= idlest.popleft().chars
            if not idlest:
                del self._recent[group]


class _Kept(msgspec.Struct, frozen=True):
    """A prompt as it is kept: its size, and the words that its first part begins with."""

    seen: Seen
    chars: int
    words: frozenset[str]


def _kept(seen: Seen) -> _Kept:
    beginning = seen.parts[0].text[:_BEGINNING_CHARS] if seen.parts else ""
    return _Kept(seen, seen.chars, frozenset(beginning.split()))


def _likeness(before: _Kept, now: _Kept) -> int:
    """Characters that may be shared where the first parts differ: words of their beginnings, in any order."""
    ours, theirs = before.seen.parts, now.seen.parts
    if not ours or not theirs or ours[0].room != theirs[0].room or ours[0].digest == theirs[0].digest:
        return 0
    alike = len(before.words & now.words) / max(1, len(before.words | now.words))
    return int(alike * len(theirs[0].text))


def _place(path: str) -> str:
    head, _, tail = path.partition("[")
    number = tail.partition("]")[0]
    if head == "messages" and number == "0":
        return "messages[0]" + _NUMBERED.sub("[*]", path.removeprefix("messages[0]"))
    return _NUMBERED.sub("[*]", path)
