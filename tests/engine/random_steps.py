"""Anything at any time: `python -m tests.engine.random_steps --steps 100000 --seed 1`.

Submits, aborts, forks, preempts, expires, purges, fails and swaps at random over a pool that is too small. After
every step every book is proved; a model on paper (`PaperRunner`) proves that no block ever holds another's past;
and whoever ends by itself must have said exactly what it would have said alone.
"""

import argparse
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from engine.config import EngineConfig
from engine.core import Core, CoreParts
from engine.detokenizer import OutputText
from engine.events import FinishReason
from engine.kv.contract import KvGroup
from engine.kv.wishes import Breakpoint, CacheWishes
from engine.pool import new_kv
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from tests.engine.fakes import CountingObserver, byte_tokenizer
from tests.engine.paper_model import PaperRunner, PaperStore, next_token

_EOS_ID = 0
_CONTEXT = 96


class StepError(RuntimeError):
    """Raised by a step on purpose."""


@dataclass
class World:
    """An engine on paper, and dice.

    Attributes:
        happened: how often each thing did.
    """

    seed: int
    any_chunks: bool = True
    groups: tuple[KvGroup, ...] = (KvGroup((0,)), KvGroup((1,), window=11))
    host_kv_mb: int = 1
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Build everything."""
        self.dice = random.Random(self.seed)
        self.now_s = 0.0
        self.everyone: dict[int, Sequence] = {}
        self.config = EngineConfig(
            block_size=4,
            kv_tokens=120,
            max_running=5,
            max_waiting=12,
            chunk_tokens=8,
            step_tokens=24,
            prefill_tokens=10,
            long_prefill=6,
            max_skips=3,
            host_kv_mb=self.host_kv_mb,
        )
        self.kv = new_kv(self.config, self.groups)
        self.kv.rates = replace(self.kv.rates, bytes_per_s=1e6)
        store = PaperStore(self.kv.num_blocks, self.config.block_size)
        self.observer = CountingObserver()
        runner = PaperRunner(self.groups, store, self.kv.saved, self._fail, self._poison, self.any_chunks)
        scheduler = Scheduler(self.config, self.kv, _CONTEXT, self.any_chunks)
        self.core = Core(
            CoreParts(scheduler, runner, byte_tokenizer(), frozenset([_EOS_ID]), self.observer, self._clock)
        )
        self._failing = 0
        self._prompts = [self._tokens(self.dice.randint(1, 60)) for _ in range(6)]

    def turn(self) -> None:
        """Do one thing."""
        roll = self.dice.random()
        self.now_s += self.dice.choice((0.0, 0.01, 1.0))
        if roll < 0.25:
            self._submit()
        elif roll < 0.31:
            self._abort()
        elif roll < 0.315:
            self.kv.purge(self.dice.choice("ab"))
            self.happened["purge"] += 1
        elif roll < 0.32:
            self.now_s += 400
            self.happened["expire"] += 1
        else:
            self._step()
        self.core.scheduler.check()

    def finish(self) -> None:
        """Run until nobody is left; then no block is held."""
        for _ in range(20000):
            if not self.core.has_work:
                break
            self._step()
            self.core.scheduler.check()
        if self.core.has_work or self.kv.usage().blocks_used:
            raise AssertionError("somebody never ends, or left a block behind")

    def _clock(self) -> float:
        """A millisecond passes between two looks at it, so that steps take time."""
        self.now_s += 1e-3
        return self.now_s

    def _submit(self) -> None:
        if self.core.scheduler.num_waiting >= self.config.max_waiting:
            return
        base = self.dice.choice(self._prompts)
        prompt = tuple(base[: self.dice.randint(1, len(base))] + self._tokens(self.dice.choice((0, 0, 1, 9))))
        wishes = CacheWishes(self.dice.choice("aab"), self._breakpoints(len(prompt)), self.dice.random() < 0.95)
        params = SamplingParams(max_tokens=self.dice.randint(0, 30), temperature=0)
        priority = self.dice.choice((0, 0, 0, 1, 5))
        family = [
            Sequence(
                len(self.everyone) + index,
                index,
                prompt,
                params,
                0,
                OutputText(),
                self.now_s,
                cache=wishes,
                priority=priority,
            )
            for index in range(self.dice.choice((1, 1, 1, 2, 4)))
        ]
        family[0].siblings = family[1:]
        self.everyone |= {one.seq_id: one for one in family}
        self.happened["submit"] += 1
        self.happened["fork"] += len(family) > 1
        self.happened["refuse"] += bool(self.core.add(family[0]))

    def _abort(self) -> None:
        if self.everyone:
            self.core.abort(self.dice.choice(list(self.everyone)[-20:]))
            self.happened["abort"] += 1

    def _step(self) -> None:
        self._failing = self.dice.choice((1, 2)) if self.dice.random() < 0.01 else 0
        scheduler = self.core.scheduler
        before = {one: one.num_preemptions for one in scheduler.running}
        events = self.core.step()
        for one, count in before.items():
            if one.num_preemptions > count:
                self.happened["swap" if one.swapped else "recompute"] += 1
        self.happened["step"] += 1
        for event in events:
            one = self.everyone[event.seq_id]
            self.happened[event.finish.value if event.finish else "token"] += 1
            if event.finish in (FinishReason.STOP, FinishReason.LENGTH) and one.output_ids != expected(one):
                raise AssertionError(f"sequence {one.seq_id} says {one.output_ids} and not {expected(one)}")

    def _fail(self) -> None:
        """Raise at the first or second call of a step that is to fail."""
        self._failing -= 1
        if self._failing == 0:
            self.happened["failed step"] += 1
            raise StepError

    def _poison(self, sequence: Sequence) -> bool:  # noqa: ARG002
        poisoned = self.dice.random() < 0.002
        self.happened["NaN"] += poisoned
        return poisoned

    def _tokens(self, count: int) -> list[int]:
        return [self.dice.randrange(3) for _ in range(count)]

    def _breakpoints(self, length: int) -> tuple[Breakpoint, ...]:
        if self.dice.random() < 0.8:
            return ()
        return (Breakpoint(self.dice.randint(1, length), self.dice.choice((5.0, 300.0))),)


def expected(sequence: Sequence) -> list[int]:
    """What a sequence says when it is alone."""
    tokens, said = list(sequence.prompt_ids), []
    while len(said) < sequence.params.max_tokens and said[-1:] != [_EOS_ID]:
        said.append(next_token([*tokens, *said]))
    return said


def main() -> None:
    """Run, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fixed-chunks", action="store_true", help="cut prompts at fixed places")
    options = parser.parse_args()
    logging.disable()
    world = World(options.seed, any_chunks=not options.fixed_chunks)
    began = time.monotonic()
    while world.happened["step"] < options.steps:
        world.turn()
    world.finish()
    print(dict(world.happened), f"{time.monotonic() - began:.0f} s", world.kv.usage())  # noqa: T201


if __name__ == "__main__":
    main()
