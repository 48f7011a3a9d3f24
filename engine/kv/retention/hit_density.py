"""Keep what earns the most hits for the room and time it takes.

A cached block occupies one place until it is asked for again or given up. Its worth at age a is the best ratio,
over all times t it might be kept to, of the chance to be asked for between a and t to the expected stay until
then: the Gittins index of the block, or hit density as in Beckmann et al., "LHD" (NSDI 2018), without a fixed
horizon. The block of least worth goes first, which need not be the oldest: what has just been let go of may be
worth less than what has waited through the silence before a next turn.

Nothing is set by hand but the kinds of block that are told apart. For each kind the policy counts at which age
blocks were asked for again, given-up ones too as long as their digests are remembered, and halves the counts from
time to time. Age is counted in blocks let go of. Ages fall into octaves; a kind has a list per octave, a block
moves on as it ages, and all blocks of a list are worth the same. A worth is looked up in a table that is computed
anew every sixteenth of the cache's turnover, so an eviction costs O(1) on average.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from engine.kv.block_lists import NO_BLOCK, BlockLists
from engine.kv.retention.contract import Session, Trace

OCTAVES = 10
STEPS_PER_TURNOVER = 16
REFRESH_AT_LEAST = 64
HALVE_AFTER_TURNOVERS = 16
CHOICES_PER_SCAN = 64

USES = (1, 2)
KNOWN_USES = (1, 8)
NEW_TOKENS = (2048, 8192)
_SIZES = len(NEW_TOKENS) + 1
_SESSIONS = (len(KNOWN_USES) + 1) * _SIZES
KINDS = (len(USES) + 1) * _SESSIONS + 1
_NEW_END = KINDS - 1


def kind_of(uses: int, *, at_end: bool, session: Session) -> int:
    """Classify a block: never, once or often used; in a session that is new, continues a rare prefix or a common
    one; grown by little, more or much. A new block at the end of its sequence is a kind of its own.
    """
    if at_end and uses == 0:
        return _NEW_END
    known = bisect_right(KNOWN_USES, session.known_uses)
    return bisect_right(USES, uses) * _SESSIONS + known * _SIZES + bisect_right(NEW_TOKENS, session.new_tokens)


@dataclass(slots=True)
class _Life:
    """What is known of a kind: how many blocks were let go of, and in which octave they were asked for again."""

    released: float = 0.0
    asked: list[float] = field(default_factory=lambda: [0.0] * OCTAVES)


def worth_by_octave(released: float, asked: list[float]) -> list[float]:
    """Return the best ratio of hits to stay that a block may still earn, per octave of its age.

    Args:
        released: blocks seen.
        asked: of them, asked for again in each octave; the last octave is open and earns nothing.

    Returns:
        hits per unit of age; the unit is the first octave's width.
    """
    widths = [1.0, *(2.0**octave for octave in range(OCTAVES - 2)), 0.0]
    waiting = [max(released, sum(asked) + 1)]
    for count in asked:
        waiting.append(waiting[-1] - count)
    worth = [0.0] * OCTAVES
    for start in range(OCTAVES - 1):
        hits = stay = 0.0
        for octave in range(start, OCTAVES - 1):
            hits += asked[octave]
            stay += (waiting[octave] - asked[octave] / 2) * widths[octave]
            worth[start] = max(worth[start], hits / stay)
    return worth


class HitDensity:
    """Ranks blocks by learned worth; equals least recently used until it has seen something come back."""

    def __init__(self, lists: BlockLists, num_blocks: int) -> None:
        self._lists = lists
        self._num_blocks = num_blocks
        self._kind = [_NEW_END] * num_blocks
        self._tick_of = [0] * num_blocks
        self._by_kind = [[lists.new_list() for _ in range(OCTAVES)] for _ in range(KINDS)]
        self._lives = [_Life() for _ in range(KINDS)]
        self._worth = [[0.0] * OCTAVES for _ in range(KINDS)]
        self._tick = 0
        self._refresh_at = 0
        self._halve_at = HALVE_AFTER_TURNOVERS * num_blocks
        self._choice = -1
        self._choices_left = 0
        self._may_have_any = False

    def released(self, block: int, uses: int, *, at_end: bool, session: Session) -> None:
        """Classify the block and start its age."""
        self._tick += 1
        kind = kind_of(uses, at_end=at_end, session=session)
        self._kind[block] = kind
        self._tick_of[block] = self._tick
        self._lives[kind].released += 1

    def add(self, block: int, *, oldest: bool = False) -> None:
        """Rank the block by its kind and age."""
        self._may_have_any = True
        octave = self._octave(self._tick - self._tick_of[block])
        which = self._by_kind[self._kind[block]][octave]
        if oldest:
            self._lists.prepend(which, block)
        else:
            self._lists.append(which, block)

    def reused(self, trace: Trace) -> None:
        """Count at which age a block of that kind was asked for."""
        kind, tick = trace
        if kind >= 0:
            self._lives[kind].asked[self._octave(self._tick - tick)] += 1

    def trace(self, block: int) -> Trace:
        """Return kind and time of release."""
        return self._kind[block], self._tick_of[block]

    def evict(self) -> int:
        """Give up the longest unused block of the list that is worth least."""
        if not self._may_have_any:
            return NO_BLOCK
        if self._tick >= self._refresh_at:
            self._refresh()
        if self._choices_left == 0 or self._lists.first(self._choice) == NO_BLOCK:
            self._choice = self._least_worth()
            self._choices_left = min(CHOICES_PER_SCAN, 1 + self._num_blocks // 128)
        if self._choice < 0:
            self._choices_left, self._may_have_any = 0, False
            return NO_BLOCK
        self._choices_left -= 1
        block = self._lists.first(self._choice)
        self._lists.remove(block)
        return block

    def _octave(self, age: int) -> int:
        return min(OCTAVES - 1, (age * STEPS_PER_TURNOVER // self._num_blocks).bit_length())

    def _least_worth(self) -> int:
        best, least = -1, (0.0, 0)
        for kind, by_octave in enumerate(self._by_kind):
            worth = self._worth[kind]
            for octave, which in enumerate(by_octave):
                first = self._lists.first(which)
                if first != NO_BLOCK:
                    rank = (worth[octave], self._tick_of[first])
                    if best < 0 or rank < least:
                        best, least = which, rank
        return best

    def _refresh(self) -> None:
        self._refresh_at = self._tick + max(REFRESH_AT_LEAST, self._num_blocks // STEPS_PER_TURNOVER)
        self._choices_left = 0
        if self._tick >= self._halve_at:
            self._halve_at = self._tick + HALVE_AFTER_TURNOVERS * self._num_blocks
            for life in self._lives:
                life.released /= 2
                life.asked = [count / 2 for count in life.asked]
        for kind, life in enumerate(self._lives):
            if life.released:
                self._worth[kind] = worth_by_octave(life.released, life.asked)
            self._age(self._by_kind[kind])

    def _age(self, by_octave: list[int]) -> None:
        for octave in reversed(range(OCTAVES - 1)):
            while True:
                block = self._lists.first(by_octave[octave])
                now = OCTAVES if block == NO_BLOCK else self._octave(self._tick - self._tick_of[block])
                if block == NO_BLOCK or now <= octave:
                    break
                self._lists.remove(block)
                self._lists.append(by_octave[now], block)
