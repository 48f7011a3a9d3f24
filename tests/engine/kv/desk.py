"""A KV cache at work on paper: slots hold a word for all tokens up to them, so every wrong block shows."""

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.kv.contract import NULL_BLOCK, KvGroup, Transfers
from engine.kv.host_tier import HostTier
from engine.kv.kv_cache import KvCache
from engine.kv.lookup import first_visible
from engine.kv.rates import Rates
from engine.kv.wishes import Breakpoint, CacheWishes, PrefixOutcome, Retention

FULL = KvGroup((0,))
ROOT = bytes(32)
FAST_HOST = Rates(bytes_per_s=1e12, recompute_s=1.0)
WORD = struct.Struct("<Q")


@dataclass(slots=True, eq=False)
class Answer:
    """A sequence as the KV cache sees it."""

    seq_id: int
    prompt_ids: tuple[int, ...]
    cache: CacheWishes = field(default_factory=CacheWishes)
    output_ids: list[int] = field(default_factory=list)
    priority: int = 0
    num_computed: int = 0
    write_from: int = 0
    tables: list[list[int]] = field(default_factory=list)
    prefix: PrefixOutcome | None = None
    hit_unit: int = 1
    cache_upto: int = sys.maxsize

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return [*self.prompt_ids, *self.output_ids]


@dataclass
class Desk:
    """Serves answers over a cache, carries its moves out, and proves every look back and every book.

    Attributes:
        live: answers that hold blocks.
    """

    groups: tuple[KvGroup, ...] = (FULL,)
    blocks: int = 16
    block_size: int = 4
    retention: Retention = field(default_factory=Retention)
    host: HostTier | None = None
    now_s: float = 0.0
    live: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Build an empty cache."""
        self.kv = KvCache(
            self.groups,
            (self.blocks,) * len(self.groups),
            self.block_size,
            ROOT,
            retention=self.retention,
            host=self.host,
        )
        self.kv.rates = FAST_HOST
        self.slots = [[0] * (self.blocks * self.block_size) for _ in self.groups]
        self.ids = 0

    def answer(self, tokens: Sequence[int], salt: str = "", **wishes: object) -> Answer:
        """Make an answer that waits."""
        self.ids += 1
        return Answer(self.ids, tuple(tokens), CacheWishes(salt, **wishes))  # type: ignore[arg-type]

    def start(self, answer: Answer, upto: int | None = None) -> bool:
        """Admit an answer."""
        started = self.kv.admit(answer, len(answer.tokens) if upto is None else upto, self.now_s)
        if started:
            self.live.append(answer)
        return started

    def step(self, answer: Answer, upto: int | None = None) -> bool:
        """Compute tokens up to a position, all by default; False when there is no room."""
        upto = len(answer.tokens) if upto is None else upto
        if not self.kv.grow(answer, upto):
            return False
        self.carry_out(self.kv.take_transfers())
        self.compute(answer, upto)
        self.kv.computed(answer, self.now_s)
        self.check()
        return True

    def compute(self, answer: Answer, upto: int) -> None:
        """Write what must be written, look back at what can be seen."""
        start, answer.num_computed = answer.num_computed, upto
        for group, spec in enumerate(self.groups):
            for position in range(max(start, answer.write_from), upto):
                self.slots[group][self._slot(answer, group, position)] = word(answer.tokens[: position + 1])
            first = 0 if spec.window is None else max(0, start - spec.window + 1)
            for position in range(first, upto):
                found = self.slots[group][self._slot(answer, group, position)]
                assert found == word(answer.tokens[: position + 1]), f"a wrong past at {position}"

    def carry_out(self, transfers: Transfers) -> None:
        """Move what is to be moved, in the order of the contract."""
        size = self.block_size
        for save in transfers.saves:
            words = self.slots[save.group][save.block * size : (save.block + 1) * size]
            self.kv.saved(save.digest, save.group, b"".join(map(WORD.pack, words)))
        for restore in transfers.restores:
            words = [one for (one,) in WORD.iter_unpack(restore.payload)]
            self.slots[restore.group][restore.block * size : (restore.block + 1) * size] = words
        for copy in transfers.copies:
            slots = self.slots[copy.group]
            source = slots[copy.source * size : copy.source * size + copy.tokens]
            slots[copy.target * size : copy.target * size + copy.tokens] = source

    def finish(self, answer: Answer) -> None:
        """Release an answer."""
        self.kv.release(answer, self.now_s)
        self.live.remove(answer)
        self.check()

    def serve(self, tokens: Sequence[int], salt: str = "", **wishes: object) -> Answer:
        """Let a prompt live its whole life, computed in one step."""
        answer = self.answer(tokens, salt, **wishes)
        assert self.start(answer)
        assert self.step(answer)
        self.finish(answer)
        return answer

    def hit(self, tokens: Sequence[int], salt: str = "", **wishes: object) -> int:
        """Serve a prompt; return how many of its tokens were found."""
        return outcome(self.serve(tokens, salt, **wishes)).hit_tokens

    def check(self) -> None:
        """Prove every book."""
        self.kv.check(self.live)

    def visible(self, answer: Answer, group: int) -> list[int]:
        """The blocks its next query looks into."""
        first = first_visible(answer.num_computed, self.groups[group].window, self.block_size)
        return answer.tables[group][first:]

    def _slot(self, answer: Answer, group: int, position: int) -> int:
        block = answer.tables[group][position // self.block_size]
        assert block != NULL_BLOCK, f"position {position} of group {group} has no block"
        return block * self.block_size + position % self.block_size


def outcome(answer: Answer) -> PrefixOutcome:
    """What its look-up found."""
    assert answer.prefix is not None
    return answer.prefix


def word(tokens: Sequence[int]) -> int:
    """What is stored for the last of these tokens."""
    return hash(tuple(tokens)) & 0xFFFFFFFFFFFFFFFF


def keep(tokens: int, ttl_s: float = 300.0) -> tuple[Breakpoint, ...]:
    """One breakpoint."""
    return (Breakpoint(tokens, ttl_s),)


def small_host(blocks: int, groups: int = 1, block_size: int = 4, min_uses: int = 0) -> HostTier:
    """A host tier that holds so many of a desk's blocks."""
    size = block_size * WORD.size
    return HostTier(blocks * size, (size,) * groups, min_uses=min_uses)
