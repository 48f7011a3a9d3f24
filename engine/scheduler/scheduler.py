"""Who runs next: pure bookkeeping, no tensors, no clock of its own.

One step is one `Plan`: a decode of every running sequence, then prefill chunks while the token budget lasts.
Admission is first come, first served, and only when the free blocks hold the whole prompt beside one spare block
for each sequence that already runs. A decode that finds no free block preempts the latest arrival: its blocks are
freed and it goes back to the head of the queue, to be computed again (prompt and answer so far; nothing is sampled
twice). Progress is certain, because a sequence that could not finish alone is refused at the door, the oldest is
never preempted for a younger one, and a step that preempts admits nobody.

Running sequences are always older than waiting ones; `check` proves it with the rest of the books.
"""

from collections import deque

from engine.config import EngineConfig
from engine.errors import RequestError
from engine.kv.block_pool import BlockPool
from engine.scheduler.refusals import context_overflow
from engine.sequence import Sequence, Status
from engine.work import Plan, Work


class Scheduler:
    """Keeps the waiting queue, the running list and every block table."""

    def __init__(self, config: EngineConfig, pool: BlockPool, max_context: int) -> None:
        self.config = config
        self.pool = pool
        self.max_tokens = min(max_context, pool.num_blocks * pool.block_size)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    @property
    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence.

        Raises:
            RequestError: it could never fit, or has no prompt.
        """
        prompt, wanted = len(sequence.prompt_ids), sequence.params.max_tokens
        if prompt == 0:
            raise RequestError(400, "The prompt is empty.", param="messages")
        if prompt + wanted > self.max_tokens:
            raise context_overflow(prompt, wanted, self.max_tokens)
        self.waiting.append(sequence)

    def plan(self) -> Plan:
        """Choose the next step's work and take the blocks it needs.

        Side effects: may admit and preempt; block tables cover every token of the plan when it returns.
        """
        preempted = self._grow_running()
        work = [self._next_work(sequence) for sequence in self.running if sequence.num_uncomputed == 1]
        budget = self.config.step_tokens - len(work)
        admitted: list[Sequence] = []
        prefilling = [sequence for sequence in self.running if sequence.num_uncomputed > 1]
        while budget > 0:
            if prefilling:
                sequence = prefilling.pop(0)
            elif preempted or not self._can_admit():
                break
            else:
                sequence = self._admit()
                admitted.append(sequence)
            item = self._next_work(sequence)
            if item.count <= budget:
                work.append(item)
            budget -= item.count
        return Plan(tuple(work), tuple(admitted), tuple(preempted))

    def computed(self, plan: Plan) -> None:
        """Record that the plan's keys and values are in the pool."""
        for item in plan.work:
            if item.sequence.status is Status.RUNNING:
                item.sequence.num_computed = item.start + item.count

    def finish(self, sequence: Sequence) -> bool:
        """Take a sequence out in whatever state it is and free its blocks.

        Returns:
            False when it was finished before; then nothing changes.
        """
        if sequence.status is Status.FINISHED:
            return False
        if sequence.status is Status.RUNNING:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self._free(sequence)
        sequence.status = Status.FINISHED
        return True

    def check(self) -> None:
        """Prove block counts, table lengths and the order of arrival; for tests.

        Raises:
            AssertionError: some book is wrong.
        """
        self.pool.check(sequence.tables[0] for sequence in self.running)
        for sequence in self.running:
            if len(sequence.tables[0]) < self.pool.blocks_for(sequence.num_computed):
                raise AssertionError(f"sequence {sequence.seq_id} has computed tokens without a block")
        arrivals = [sequence.seq_id for sequence in (*self.running, *self.waiting)]
        if arrivals != sorted(arrivals):
            raise AssertionError("a younger sequence runs before an older one waits")
        if len(self.running) > self.config.max_running or any(s.tables for s in self.waiting):
            raise AssertionError("too many run, or a waiting sequence holds blocks")

    def _grow_running(self) -> list[Sequence]:
        preempted: list[Sequence] = []
        for sequence in tuple(self.running):
            while sequence.status is Status.RUNNING and self._missing_blocks(sequence) > 0:
                if self.pool.num_free >= self._missing_blocks(sequence):
                    sequence.tables[0] += self.pool.allocate(self._missing_blocks(sequence))
                else:
                    victim = self.running[-1]
                    self._preempt(victim)
                    preempted.append(victim)
        return preempted

    def _missing_blocks(self, sequence: Sequence) -> int:
        return self.pool.blocks_for(sequence.num_tokens) - len(sequence.tables[0])

    def _can_admit(self) -> bool:
        if not self.waiting or len(self.running) >= self.config.max_running:
            return False
        needed = self.pool.blocks_for(self.waiting[0].num_tokens)
        return needed + len(self.running) <= self.pool.num_free

    def _admit(self) -> Sequence:
        sequence = self.waiting.popleft()
        sequence.tables = [self.pool.allocate(self.pool.blocks_for(sequence.num_tokens))]
        sequence.status = Status.RUNNING
        self.running.append(sequence)
        return sequence

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._free(sequence)
        sequence.status = Status.WAITING
        sequence.num_preemptions += 1
        self.waiting.appendleft(sequence)

    def _free(self, sequence: Sequence) -> None:
        for table in sequence.tables:
            self.pool.release(table)
        sequence.tables = []
        sequence.num_computed = 0

    def _next_work(self, sequence: Sequence) -> Work:
        start, chunk = sequence.num_computed, self.config.chunk_tokens
        boundary = (start // chunk + 1) * chunk
        return Work(sequence, start, min(boundary - start, sequence.num_uncomputed), start)
