"""One step's prompt tokens: who gets how many, and who may start."""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.kv.kv_cache import KvCache
from engine.scheduler.cuts import Cuts
from engine.scheduler.fair_share import FairShare
from engine.scheduler.lines import Lines
from engine.sequence import Sequence, Status

_SPARE_SHARE = 100
"""One block in so many stays free when a sequence starts, beside one for each that runs."""


@dataclass(frozen=True, slots=True)
class FillingParts:
    """What a step is filled from and by.

    Attributes:
        running: the running set, which `start` adds to.
        start: give a waiting sequence its cached prefix and room for tokens [0, upto), and let it run; False when
            there is no room, and then nothing has changed.
    """

    config: EngineConfig
    kv: KvCache
    cuts: Cuts
    shares: FairShare
    running: Rows[Sequence]
    start: Callable[[Sequence, int], bool]


class Filling:
    """The prompt side of one step, being decided.

    Args:
        parts: the scheduler's.
        partial: running sequences whose prompt is partly computed.
        budget: prompt tokens of the step.
        may_start: whether waiting sequences may start in it.

    Attributes:
        counts: tokens of each sequence in the step, in the order they were given.
        started: sequences that began to run.
    """

    def __init__(self, parts: FillingParts, partial: Iterable[Sequence], budget: int, may_start: bool) -> None:
        self._parts = parts
        self._budget = budget
        self._may_start = may_start
        self._partial = list(partial)
        self._passed: list[Sequence] = []
        self.counts: dict[Sequence, int] = {}
        self.started: list[Sequence] = []

    def run(self, lines: Lines) -> None:
        """Give the budget out.

        Side effects: starts sequences, grows tables, charges tenants.
        """
        while self._budget > 0 and lines:
            sequence = lines.next(self._parts.shares)
            if sequence.status is Status.WAITING and not self._start(sequence):
                if not self._may_start:
                    lines.running_only()
                continue
            given = self._give(sequence)
            anywhere = self._parts.cuts.chunk_tokens is None
            if given and anywhere and sequence.num_computed + self.counts[sequence] < sequence.num_tokens:
                lines.again(sequence)

    def _give(self, sequence: Sequence) -> int:
        """Plan the next piece of a sequence; 0 when it finds no budget or no room."""
        parts = self._parts
        start = sequence.num_computed + self.counts.get(sequence, 0)
        count = parts.cuts.next_count(sequence, start)
        if count > self._budget:
            if parts.cuts.chunk_tokens is not None:
                return 0
            count = self._budget
        if start + count > sequence.covered:
            if not parts.kv.grow(sequence, start + count):
                return 0
            sequence.covered = len(sequence.tables[0]) * parts.kv.block_size
        self._budget -= count
        self.counts[sequence] = self.counts.get(sequence, 0) + count
        parts.shares.charge(sequence.tenant, count)
        return count

    def _start(self, sequence: Sequence) -> bool:
        parts = self._parts
        self._may_start &= len(parts.running) < parts.config.max_running
        if not self._may_start or self._has_twin(sequence):
            return False
        if not self._make_start(sequence):
            self._pass_over(sequence)
            return False
        for other in self._passed:
            other.num_skipped += 1
        sequence.num_skipped, sequence.denied_free = 0, -1
        self._partial.append(sequence)
        self.started.append(sequence)
        return True

    def _make_start(self, sequence: Sequence) -> bool:
        parts = self._parts
        if not parts.running:
            return parts.start(sequence, sequence.num_tokens)
        free = parts.kv.num_free
        if free <= sequence.denied_free:
            return False
        room = free - self._promised() - len(parts.running) - parts.config.num_blocks // _SPARE_SHARE
        if parts.kv.blocks_for(sequence.num_tokens) <= room:
            # What is held for it beyond this piece is a promise, so that a window's blocks are never all held.
            return parts.start(sequence, min(sequence.num_tokens, parts.config.chunk_tokens))
        if parts.kv.blocks_for(sequence.num_tokens - parts.kv.peek(sequence)) <= room:
            return parts.start(sequence, sequence.num_tokens)
        return False

    def _promised(self) -> int:
        kv = self._parts.kv
        return sum(max(0, kv.blocks_for(one.num_tokens) - len(one.tables[0])) for one in self._partial)

    def _pass_over(self, sequence: Sequence) -> None:
        sequence.denied_free = self._parts.kv.num_free
        self._passed.append(sequence)
        if sequence.num_skipped >= self._parts.config.max_skips:
            self._may_start = False

    def _has_twin(self, sequence: Sequence) -> bool:
        """Whether a running sequence is about to cache more of this very prompt than is cached now."""
        prompt, unit = sequence.prompt_ids, self._unit()
        for other in self._partial:
            agreed = (other.num_computed // unit + 1) * unit
            if (
                other.tenant == sequence.tenant
                and other.priority <= sequence.priority
                and sequence.cache.read
                and agreed < len(prompt)
                and agreed <= len(other.prompt_ids)
                and other.prompt_ids[agreed - 1] == prompt[agreed - 1]
                and other.prompt_ids[:agreed] == prompt[:agreed]
            ):
                return True
        return False

    def _unit(self) -> int:
        return self._parts.cuts.chunk_tokens or self._parts.kv.block_size
