"""Who runs next: pure bookkeeping, no tensors, no clock of its own.

One step is one `Plan`: a token for every sequence that decodes, then pieces of prompts while the step's budget
lasts. The budget goes round between tenants (`FairShare`), better priorities first (`Ageing`), one helping of a
prompt at a time, so that no prompt and no tenant can take it all. Progress is certain: what could not run alone is
refused at the door; blocks are taken from the worst-ranked sequence, so the best-ranked one is never preempted; a
step that preempts starts nobody; and who has been passed over too often makes everyone wait for the room it needs.

A sequence gives its blocks back exactly once, in whatever state it is: `finish` and preemption are the only ways
out of the running set.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from engine.config import EngineConfig
from engine.kv.kv_cache import KvCache
from engine.scheduler.cuts import Cuts
from engine.scheduler.fair_share import FairShare
from engine.scheduler.filling import Filling, FillingParts
from engine.scheduler.lines import Lines
from engine.scheduler.order import Ageing
from engine.scheduler.refusals import check_fits
from engine.scheduler.waiting import WaitingQueue
from engine.sequence import Sequence, Status
from engine.work import Plan, Work

_MAX_DEBT_STEPS = 4
_SPARE_CANDIDATES = 4


class Scheduler:
    """Keeps the waiting queue and the running set.

    Args:
        config: limits.
        kv: who holds which block.
        max_context: longest prompt plus answer the model takes.
        any_chunks: whether prompts may be cut anywhere, see `engine.scheduler.cuts`.
    """

    def __init__(self, config: EngineConfig, kv: KvCache, max_context: int, any_chunks: bool = False) -> None:
        self.config = config
        self.kv = kv
        self.max_tokens = _longest(kv, max_context)
        self.waiting = WaitingQueue()
        self.running: list[Sequence] = []
        self._following = 0
        self._cuts = Cuts(None if any_chunks else config.chunk_tokens, config.long_prefill, kv.block_size)
        self._ageing = Ageing(config.ageing_s)
        self._shares = FairShare(config.long_prefill, _MAX_DEBT_STEPS * config.step_tokens)

    @property
    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self.waiting or self.running)

    @property
    def num_waiting(self) -> int:
        """Sequences that do not run yet, those included that follow another."""
        return len(self.waiting) + self._following

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence, and with it the siblings that follow it.

        Where tenants share the engine, a request may ask to run later than others, but not sooner: the wish comes
        from a client, and would be at the other tenants' cost.

        Raises:
            RequestError: it could never fit, or has no prompt.
        """
        check_fits(sequence, self.max_tokens)
        for one in (sequence, *sequence.siblings):
            self._cuts.begin(one)
            if one.tenant:
                one.priority = max(0, one.priority)
            if not self.config.prefix_cache:
                one.cache = replace(one.cache, read=False)
        for follower in sequence.siblings:
            follower.status, follower.leader = Status.FOLLOWING, sequence
        self._following += len(sequence.siblings)
        self.waiting.add(sequence)

    def plan(self, now_s: float) -> Plan:
        """Choose the next step's work and take the blocks it needs.

        Side effects: may start and preempt; block tables cover every token of the plan when it returns.
        """
        decoding, partial, preempted = self._secure(now_s)
        work = [_work(one, 1) for one in decoding]
        used = Counter([one.cache.salt for one in decoding])
        for tenant, tokens in used.items():
            self._shares.charge(tenant, tokens)
        filling = self._fill(partial, bool(work), not preempted, now_s)
        for one, count in filling.counts.items():
            work.append(_work(one, count))
        present = {*used, *(one.tenant for one in (*partial, *filling.started)), *self.waiting.tenants}
        self._shares.forget(present)
        transfers = self.kv.take_transfers()
        return Plan(tuple(work), len(decoding), tuple(filling.started), tuple(preempted), transfers)

    def joining(self, plan: Plan) -> dict[Sequence, list[Sequence]]:
        """The followers that find a place beside their leader once its prompt is computed, by leader."""
        places = self.config.max_running - len(self.running)
        found: dict[Sequence, list[Sequence]] = {}
        for item in plan.work:
            if item.sequence.siblings and item.samples:
                found[item.sequence] = item.sequence.siblings[:places]
                places -= len(found[item.sequence])
        return found

    def computed(self, plan: Plan, now_s: float, untrusted: Collection[Sequence] = ()) -> None:
        """Record that the plan's keys and values are in the pool.

        Args:
            plan: what was carried out.
            now_s: monotonic clock.
            untrusted: sequences whose numbers went wrong; nothing of theirs is cached.
        """
        block_size = self.kv.block_size
        for item in plan.work:
            sequence = item.sequence
            if sequence.status is not Status.RUNNING or sequence in untrusted:
                continue
            end = item.start + item.count
            sequence.num_computed = end
            self._cuts.computed(sequence, item.start, item.count)
            if end // block_size > item.start // block_size:
                self.kv.computed(sequence, now_s)

    def fork(self, leader: Sequence, joining: Collection[Sequence]) -> None:
        """Let a computed prompt's followers go their own ways: those that join run now, the others queue."""
        followers, leader.siblings = leader.siblings, []
        self._following -= len(followers)
        for follower in followers:
            follower.leader = None
            follower.prefix = leader.prefix
            if follower in joining:
                self._run_beside(leader, follower)
            else:
                follower.status = Status.WAITING
                self.waiting.add(follower)

    def finish(self, sequence: Sequence, now_s: float, trusted: bool = True) -> bool:
        """Take a sequence out in whatever state it is and free its blocks; a follower takes a leader's place.

        Args:
            sequence: whose end it is.
            now_s: monotonic clock.
            trusted: False forgets what was cached on its behalf.

        Returns:
            False when it was finished before; then nothing changes.
        """
        if sequence.status is Status.FINISHED:
            return False
        if sequence.leader is not None:
            sequence.leader.siblings.remove(sequence)
            sequence.leader = None
            self._following -= 1
        elif sequence.siblings:
            self._hand_over(sequence)
        if sequence.status is Status.RUNNING:
            self.running.remove(sequence)
        elif sequence.status is Status.WAITING:
            self.waiting.remove(sequence)
        (self.kv.release if trusted else self.kv.discard)(sequence, now_s)
        sequence.status = Status.FINISHED
        return True

    def check(self) -> None:
        """Prove the books: states, followers, tables and every invariant of the KV cache; for tests.

        Raises:
            AssertionError: some book is wrong.
        """
        self.kv.check(self.running)
        for one in self.running:
            if one.status is not Status.RUNNING or not 0 <= one.num_computed < one.num_tokens:
                raise AssertionError(
                    f"sequence {one.seq_id} runs in state {one.status}, {one.num_computed} computed"
                )
            if len(one.tables[0]) < self.kv.blocks_for(one.num_computed):
                raise AssertionError(f"sequence {one.seq_id} has computed tokens without a block")
        if any(one.status is not Status.WAITING or any(one.tables) for one in self.waiting):
            raise AssertionError("a waiting sequence holds blocks or is in another state")
        leaders = [one for one in (*self.running, *self.waiting) if one.siblings]
        if self._following != sum(len(one.siblings) for one in leaders):
            raise AssertionError("the number of followers is wrong")
        for one in leaders:
            if any(other.leader is not one or other.status is not Status.FOLLOWING for other in one.siblings):
                raise AssertionError(f"a follower of sequence {one.seq_id} does not know it")
        if len(self.running) > self.config.max_running or len(set(self.running)) < len(self.running):
            raise AssertionError("too many run, or one runs twice")

    def _fill(self, partial: list[Sequence], decodes: bool, may_start: bool, now_s: float) -> Filling:
        config = self.config
        parts = FillingParts(
            config,
            self.kv,
            self._cuts,
            self._shares,
            self.running,
            lambda one, upto: self._start(one, upto, now_s),
        )
        budget = config.prefill_tokens if decodes else config.step_tokens
        filling = Filling(parts, partial, budget, may_start)
        places = config.max_running - len(self.running)
        count = places + _SPARE_CANDIDATES if may_start and places > 0 else 0
        waiting = self.waiting.best_priority() if count else None
        priorities = [one.priority for one in partial] + ([] if waiting is None else [waiting])
        if priorities:
            lines = Lines(self._ageing, min(priorities), now_s)
            lines.fill(partial, self.waiting, count)
            filling.run(lines)
        return filling

    def _secure(self, now_s: float) -> tuple[list[Sequence], list[Sequence], list[Sequence]]:
        """Give every running sequence blocks for its next piece, taking them from the worst-ranked ones.

        Returns:
            The sequences that decode, those whose prompt is partly computed, and those that were preempted.
        """
        decoding: list[Sequence] = []
        partial: list[Sequence] = []
        preempted: list[Sequence] = []
        for sequence in tuple(self.running):
            if sequence.status is not Status.RUNNING:
                continue
            start = sequence.num_computed
            upto = len(sequence.prompt_ids) + len(sequence.output_ids)
            if upto == start + 1:
                decoding.append(sequence)
            else:
                partial.append(sequence)
                upto = start + self._cuts.next_count(sequence, start)
            if upto > sequence.covered:
                self._make_room(sequence, upto, preempted, now_s)
        if preempted:
            decoding = [one for one in decoding if one.status is Status.RUNNING]
            partial = [one for one in partial if one.status is Status.RUNNING]
        return decoding, partial, preempted

    def _make_room(self, sequence: Sequence, upto: int, preempted: list[Sequence], now_s: float) -> None:
        while not self.kv.grow(sequence, upto):
            victim = self._worst(now_s)
            self._preempt(victim, now_s)
            preempted.append(victim)
            if victim is sequence:
                return
        sequence.covered = len(sequence.tables[0]) * self.kv.block_size

    def _worst(self, now_s: float) -> Sequence:
        best = min(one.priority for one in self.running)
        return max(self.running, key=lambda one: self._ageing.rank(one, best, now_s))

    def _start(self, sequence: Sequence, upto: int, now_s: float) -> bool:
        give = self.kv.swap_in if sequence.swapped else self.kv.admit
        if not give(sequence, upto, now_s):
            return False
        self.waiting.remove(sequence)
        self._cuts.started(sequence)
        sequence.swapped = False
        sequence.status = Status.RUNNING
        sequence.covered = len(sequence.tables[0]) * self.kv.block_size
        self.running.append(sequence)
        return True

    def _preempt(self, sequence: Sequence, now_s: float) -> None:
        self.running.remove(sequence)
        sequence.swapped = self.kv.prefers_swap(sequence)
        (self.kv.swap_out if sequence.swapped else self.kv.release)(sequence, now_s)
        sequence.status = Status.WAITING
        sequence.covered = 0
        sequence.num_preemptions += 1
        self.waiting.add(sequence)

    def _run_beside(self, leader: Sequence, follower: Sequence) -> None:
        self.kv.fork(leader, follower)
        leader.covered = follower.covered = 0
        follower.cache_upto = leader.cache_upto
        follower.admitted_s = leader.admitted_s
        follower.status = Status.RUNNING
        self.running.append(follower)

    def _hand_over(self, leader: Sequence) -> None:
        """Put the first follower where its leader is, with the others behind it."""
        self._following -= 1
        heir, *others = leader.siblings
        leader.siblings, heir.siblings, heir.leader = [], others, None
        for other in others:
            other.leader = heir
        if leader.status is Status.RUNNING:
            self._run_beside(leader, heir)
        else:
            heir.status = Status.WAITING
            self.waiting.add(heir)


def _work(sequence: Sequence, count: int) -> Work:
    start, write_from = sequence.num_computed, sequence.write_from
    return Work(sequence, start, count, max(write_from, start))


def _longest(kv: KvCache, max_context: int) -> int:
    """The most tokens of one sequence that the model takes and the pool can hold."""
    low, high = 0, max_context
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if kv.can_hold(middle) else (low, middle - 1)
    return low
