"""Anything in any order: `python -m tests.engine.kv.walk --steps 100000 --seed 1`.

Admits, computes in pieces, generates, forks, preempts, swaps, fails, discards, purges and lets time pass, over a
pool that is too small. The desk compares every word that is looked back at; every book is proved after every step.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable

from engine.kv.contract import KvGroup
from engine.kv.wishes import Breakpoint, Retention
from tests.engine.kv.desk import FULL, Answer, Desk, small_host

Choose = Callable[[int], int]
"""Returns a number from 0 to below its argument."""

WINDOW = KvGroup((1,), window=7)
MOST_LIVE = 5
LONGEST = 40


def desk_of(groups: tuple[KvGroup, ...], policy: str, host_blocks: int, *, strict: bool = False) -> Desk:
    """A desk that is too small for what comes; `strict` drops expired blocks and guards floors."""
    retention = Retention(policy, tenant_floor=0.2 if strict else 0.0, drop_expired=strict)
    host = small_host(host_blocks, len(groups)) if host_blocks else None
    return Desk(groups=groups, blocks=14, retention=retention, host=host)


class Walk:
    """A random walk over one desk.

    Attributes:
        happened: how often each thing did.
    """

    def __init__(self, desk: Desk, choose: Choose) -> None:
        self.desk = desk
        self.choose = choose
        self.waiting: list[Answer] = []
        self.happened: Counter[str] = Counter()
        self._unmoved: set[Answer] = set()

    def turn(self) -> None:
        """Do one thing, and prove every book."""
        actions = [self.submit, self.admit, self.advance, self.advance, self.advance, self.fork, self.end]
        rare, rarest = [self.preempt, self.swap, self.wait], [self.fail, self.purge, self.distrust]
        roll = self.choose(100)
        chosen = rarest if roll == 0 else rare if roll < 8 else actions
        chosen[self.choose(len(chosen))]()
        self.desk.check()

    def finish(self) -> None:
        """End everyone; then no block is held."""
        while self.desk.live:
            self.desk.finish(self.desk.live[0])
        self.desk.kv.take_transfers()
        assert self.desk.kv.num_free == self.desk.blocks

    def submit(self) -> None:
        """Queue a prompt that shares its start with others."""
        if len(self.waiting) < MOST_LIVE:
            shared, own = self.choose(20), self.choose(12)
            tokens = [*range(shared), *(100 + self.choose(2) for _ in range(own)), 7]
            points = (Breakpoint(1 + self.choose(len(tokens)), 60.0),) if self.choose(4) == 0 else ()
            answer = self.desk.answer(tokens, "ab"[self.choose(2)], breakpoints=points, read=self.choose(12) > 0)
            answer.priority = self.choose(3) - 1
            self.waiting.append(answer)

    def admit(self) -> None:
        """Let one that waits begin, with room for a part of it or all."""
        if not self.waiting or len(self.desk.live) >= MOST_LIVE:
            return
        answer = self.waiting[self.choose(len(self.waiting))]
        if self.desk.start(answer, 1 + self.choose(len(answer.tokens))):
            self.waiting.remove(answer)
            self._unmoved.add(answer)
            self.happened["admit"] += 1
        else:
            assert answer.tables == []
            self.happened["no room"] += 1

    def advance(self) -> None:
        """Compute a piece, or one token and choose the next."""
        answer = self._any()
        if answer is None:
            return
        left = len(answer.tokens) - answer.num_computed
        if left == 0:
            answer.output_ids.append(self.choose(3))
            left = 1
        if self.desk.step(answer, answer.num_computed + 1 + self.choose(left)):
            self._unmoved.clear()
            self.happened["step"] += 1
        else:
            self._put_back(answer)
        if answer in self.desk.live and len(answer.tokens) >= LONGEST:
            self.desk.finish(answer)

    def fork(self) -> None:
        """Branch one that has computed all it has."""
        parent = self._any()
        if parent is None or parent.num_computed < len(parent.tokens) or len(self.desk.live) >= MOST_LIVE:
            return
        child = self.desk.answer(parent.prompt_ids, parent.cache.salt)
        child.output_ids = list(parent.output_ids)
        self.desk.kv.fork(parent, child)
        self.desk.live.append(child)
        child.output_ids.append(3)
        parent.output_ids.append(4)
        self.happened["fork"] += 1

    def end(self) -> None:
        """Finish or abort one."""
        answer = self._any()
        if answer is not None and self.choose(3) == 0:
            self.desk.finish(answer)
            self.happened["end"] += 1

    def preempt(self) -> None:
        """Release one to be computed again."""
        answer = self._any()
        if answer is not None:
            self._put_back(answer)

    def swap(self) -> None:
        """Release one so that the host keeps what it had."""
        answer = self._any()
        if answer is not None and self.desk.kv.prefers_swap(answer) and answer not in self._unmoved:
            self.desk.kv.swap_out(answer, self.desk.now_s)
            self.desk.live.remove(answer)
            self.waiting.append(answer)
            self.happened["swap"] += 1

    def fail(self) -> None:
        """Lose a step's moves, and with it everyone they were for."""
        answer = self._any()
        if answer is None or not self.desk.kv.grow(answer, len(answer.tokens)):
            return
        self._unmoved.add(answer)
        self.desk.kv.take_transfers()
        for lost in tuple(self._unmoved & set(self.desk.live)):
            self._discard(lost)
        self._unmoved.clear()
        self.happened["fail"] += 1

    def distrust(self) -> None:
        """End one whose logits went wrong."""
        answer = self._any()
        if answer is not None:
            self._discard(answer)
            self.happened["distrust"] += 1

    def purge(self) -> None:
        """Forget a tenant."""
        self.desk.kv.purge("ab"[self.choose(2)])
        self.happened["purge"] += 1

    def wait(self) -> None:
        """Let time pass."""
        self.desk.now_s += (1, 30, 100)[self.choose(3)]

    def _any(self) -> Answer | None:
        return self.desk.live[self.choose(len(self.desk.live))] if self.desk.live else None

    def _put_back(self, answer: Answer) -> None:
        self.desk.finish(answer)
        self.waiting.append(answer)
        self.happened["preempt"] += 1

    def _discard(self, answer: Answer) -> None:
        self.desk.kv.discard(answer, self.desk.now_s)
        self.desk.live.remove(answer)


def main() -> None:
    """Walk, and say what happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="hit-density")
    options = parser.parse_args()
    began = time.monotonic()
    for groups in ((FULL,), (FULL, WINDOW), (WINDOW,)):
        for host_blocks in (0, 30):
            dice = random.Random(options.seed)
            walk = Walk(desk_of(groups, options.policy, host_blocks, strict=host_blocks == 0), dice.randrange)
            for _ in range(options.steps // 6):
                walk.turn()
            walk.finish()
            print(dict(walk.happened), walk.desk.kv.usage())  # noqa: T201
    print(f"{time.monotonic() - began:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
