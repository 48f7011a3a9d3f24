"""Marked prompts outlive the pressure of others for as long as they asked, counted from their latest use."""

from dataclasses import dataclass, replace

import pytest

from engine.core import Core, CoreParts
from engine.kv.contract import KvGroup
from engine.kv.kv_cache import KvCache, Retention
from engine.kv.wishes import Breakpoint, CacheWishes
from engine.prompt_use import PromptUse
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from tests.engine import tiny
from tests.engine.fakes import CountingObserver, ScriptedRunner, byte_tokenizer

CONFIG = replace(tiny.small_config(), kv_tokens=256)
ASKED = tuple(range(10, 58))
WARM = SamplingParams(max_tokens=0)
MINUTES_S = 300.0


@dataclass
class Engine:
    """A core over 64 blocks of 4 tokens, and its clock."""

    core: Core
    now_s: float = 0.0
    asked: int = 0

    def use(self, prompt: tuple[int, ...], *points: Breakpoint) -> PromptUse:
        """Pre-warms a prompt; what became of it."""
        sequence = tiny.new_sequence(self.asked, prompt, WARM)
        sequence.cache = CacheWishes("t", points)
        self.asked += 1
        assert self.core.add(sequence) == []
        told = [event.prompt for _ in range(50) if self.core.has_work for event in self.core.step()]
        assert len(told) == 1
        assert told[0] is not None
        return told[0]

    def flood(self) -> None:
        """More other prompts than the pool holds."""
        for number in range(12):
            self.use(tuple(100 + (number * 31 + step * step) % 150 for step in range(40)))


@pytest.fixture
def engine() -> Engine:
    kv = KvCache((KvGroup((0,)),), (64,), CONFIG.block_size, b"root", retention=Retention())
    parts = CoreParts(
        scheduler=Scheduler(CONFIG, kv, 1024, any_chunks=True),
        runner=ScriptedRunner(300, any_chunks=True),
        tokenizer=byte_tokenizer(),
        eos_ids=frozenset(),
        observer=CountingObserver(),
        clock=lambda: made.now_s,
    )
    made = Engine(Core(parts))
    return made


def test_an_unmarked_prompt_gives_way_and_the_miss_says_so(engine: Engine) -> None:
    engine.use(ASKED)
    engine.flood()
    again = engine.use(ASKED)
    assert (again.cached, again.miss) == (0, "evicted")


def test_a_marked_one_stays_up_to_its_mark_until_its_time_is_over(engine: Engine) -> None:
    engine.use(ASKED, Breakpoint(40, MINUTES_S))
    engine.now_s = MINUTES_S - 1
    engine.flood()
    assert engine.core.scheduler.kv.usage().blocks_pinned == 10
    assert engine.use(ASKED).cached == 40
    engine.now_s = 3 * MINUTES_S
    engine.flood()
    assert engine.use(ASKED).cached == 0


@pytest.mark.parametrize("marked", [True, False])
def test_each_use_begins_its_time_anew(engine: Engine, marked: bool) -> None:
    """Whether or not the later request marks it again."""
    mark = Breakpoint(40, MINUTES_S)
    engine.use(ASKED, mark)
    for _ in range(4):
        engine.now_s += MINUTES_S * 0.8
        assert engine.use((*ASKED[:40], 5, 5, 5, 5), *([mark] if marked else ())).cached >= 40
        engine.flood()
    assert engine.use(ASKED).cached == 40


def test_the_longest_of_two_lives_holds(engine: Engine) -> None:
    engine.use(ASKED, Breakpoint(20, 3600.0), Breakpoint(40, MINUTES_S))
    engine.now_s = 1000.0
    engine.flood()
    assert engine.use(ASKED).cached == 20
