"""What the core makes of the prefix cache: true counts, nothing wrong kept, the same prompt computed once."""

from collections.abc import Iterator

import pytest

from engine.core import Core
from engine.events import FinishReason, TokenEvent
from engine.kv.wishes import CacheWishes
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Work
from tests.engine import tiny
from tests.engine.fakes import CountingObserver, ScriptedRunner, build_core

VOCAB = 300
PROMPT = tuple(range(100, 130))


class Computed:
    """Counts the prompt tokens each sequence had computed."""

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}

    def __call__(self, work: tuple[Work, ...]) -> None:
        for item in work:
            new = min(item.start + item.count, len(item.sequence.prompt_ids)) - item.start
            seq_id = item.sequence.seq_id
            self.tokens[seq_id] = self.tokens.get(seq_id, 0) + max(0, new)


@pytest.fixture
def numbers() -> Iterator[int]:
    return iter(range(1000))


def sequence(
    numbers: Iterator[int], prompt: tuple[int, ...] = PROMPT, answer: int = 4, salt: str = ""
) -> Sequence:
    one = tiny.new_sequence(next(numbers), prompt, SamplingParams(max_tokens=answer, temperature=0))
    one.cache = CacheWishes(salt)
    return one


def drain(core: Core) -> list[TokenEvent]:
    events: list[TokenEvent] = []
    while core.has_work:
        events += core.step()
    assert core.scheduler.kv.usage().blocks_used == 0
    return events


@pytest.mark.parametrize("any_chunks", [True, False])
def test_every_prompt_token_is_either_cached_or_computed(numbers: Iterator[int], any_chunks: bool) -> None:
    """ollama#16428, vllm#18149: and the engine's own counter says the same."""
    computed = Computed()
    core = build_core(ScriptedRunner(VOCAB, before=computed, any_chunks=any_chunks))
    everyone = [
        sequence(numbers, PROMPT[:cut] + (7,) * tail) for cut, tail in ((30, 0), (30, 0), (20, 5), (30, 9), (2, 1))
    ]
    cached = 0
    for one in everyone:
        core.add(one)
        first = drain(core)[0]
        assert first.prompt is not None
        assert computed.tokens[one.seq_id] + first.prompt.cached == len(one.prompt_ids)
        cached += first.prompt.cached
    usage = core.scheduler.kv.usage()
    assert sum(usage.hit_tokens.values()) == cached > 0
    assert usage.query_tokens == sum(len(one.prompt_ids) for one in everyone)


def test_hits_are_counted_once_however_often_a_sequence_is_preempted(numbers: Iterator[int]) -> None:
    """nano-vllm PR#211: the hit is what the first admission found."""
    core = build_core(ScriptedRunner(VOCAB, any_chunks=True), tiny.small_config(kv_tokens=60))
    both = [sequence(numbers, (5, 6, 7, number) * 3, answer=24) for number in range(2)]
    for one in both:
        core.add(one)
    drain(core)
    assert sum(one.num_preemptions for one in both) > 0
    usage = core.scheduler.kv.usage()
    assert (usage.query_tokens, sum(usage.hit_tokens.values())) == (24, 0)


def test_a_prompt_that_is_being_computed_is_waited_for(numbers: Iterator[int]) -> None:
    computed = Computed()
    core = build_core(ScriptedRunner(VOCAB, before=computed, any_chunks=True), tiny.small_config(long_prefill=5))
    first, second, other = sequence(numbers), sequence(numbers), sequence(numbers, (9,) * 10)
    for one in (first, second, other):
        core.add(one)
    drain(core)
    assert computed.tokens == {0: 30, 1: 2, 2: 10}  # of the second, what is left behind its last whole block
    assert second.num_preemptions == 0


def test_another_tenants_prompt_is_not_waited_for(numbers: Iterator[int]) -> None:
    computed = Computed()
    core = build_core(ScriptedRunner(VOCAB, before=computed, any_chunks=True))
    core.add(sequence(numbers, salt="a"))
    core.add(sequence(numbers, salt="b"))
    core.step()
    assert len(core.scheduler.running) == 2
    drain(core)
    assert computed.tokens == {0: 30, 1: 30}


def test_a_better_priority_does_not_wait_for_a_worse_ones_prompt(numbers: Iterator[int]) -> None:
    core = build_core(ScriptedRunner(VOCAB, any_chunks=True), tiny.small_config(step_tokens=16))
    slow, urgent = sequence(numbers), sequence(numbers)
    slow.priority = 5
    core.add(slow)
    core.step()
    core.add(urgent)
    core.step()
    assert urgent in core.scheduler.running
    drain(core)


def test_a_prompt_may_be_computed_ahead_of_its_use(numbers: Iterator[int]) -> None:
    core = build_core(ScriptedRunner(VOCAB, any_chunks=True))
    core.add(sequence(numbers, answer=0))
    (event,) = drain(core)
    assert (event.finish, event.num_output, event.tokens) == (FinishReason.LENGTH, 0, ())
    assert event.prompt is not None
    assert (event.prompt.cached, event.prompt.written) == (0, 28)
    core.add(sequence(numbers))
    first = drain(core)[0]
    assert first.prompt is not None
    assert first.prompt.cached >= 28


def test_nothing_is_kept_of_a_sequence_whose_logits_were_nan(numbers: Iterator[int]) -> None:
    sick = [True]
    core = build_core(ScriptedRunner(VOCAB, lambda _: None if sick[0] else 65, any_chunks=True))
    core.add(sequence(numbers))
    assert drain(core)[-1].finish is FinishReason.ERROR
    sick[0] = False
    core.add(sequence(numbers))
    first = drain(core)[0]
    assert first.prompt is not None
    assert first.prompt.cached == 0


def test_nothing_is_kept_of_a_step_that_failed(numbers: Iterator[int]) -> None:
    calls: list[int] = []

    def before(work: tuple[Work, ...]) -> None:
        calls.append(len(work))
        if len(calls) == 2:
            raise RuntimeError

    observer = CountingObserver()
    core = build_core(
        ScriptedRunner(VOCAB, before=before, any_chunks=True), tiny.small_config(step_tokens=16), observer
    )
    core.add(sequence(numbers))
    assert drain(core)[-1].finish is FinishReason.ERROR
    assert observer.failed_steps == 1
    core.add(sequence(numbers))
    first = drain(core)[0]
    assert first.prompt is not None
    assert first.prompt.cached == 0


def test_a_cache_that_is_off_finds_nothing(numbers: Iterator[int]) -> None:
    core = build_core(ScriptedRunner(VOCAB, any_chunks=True), tiny.small_config(prefix_cache=False))
    for _ in range(2):
        core.add(sequence(numbers))
        first = drain(core)[0]
        assert first.prompt is not None
        assert first.prompt.cached == 0


def test_a_leader_that_fails_takes_its_followers_along(numbers: Iterator[int]) -> None:
    core = build_core(ScriptedRunner(VOCAB, lambda _: None))
    leader = sequence(numbers)
    leader.siblings = [sequence(numbers), sequence(numbers)]
    core.add(leader)
    assert sorted(event.seq_id for event in drain(core) if event.finish is FinishReason.ERROR) == [0, 1, 2]


def test_a_family_is_prewarmed_together(numbers: Iterator[int]) -> None:
    core = build_core(ScriptedRunner(VOCAB))
    leader = sequence(numbers, answer=0)
    leader.siblings = [sequence(numbers, answer=0)]
    core.add(leader)
    events = drain(core)
    assert sorted((event.seq_id, event.finish) for event in events) == [
        (0, FinishReason.LENGTH),
        (1, FinishReason.LENGTH),
    ]


def test_an_abort_while_blocks_are_being_brought_back_leaks_nothing(numbers: Iterator[int]) -> None:
    """vllm#46289: neither before nor after the step that would have brought them."""
    config = tiny.small_config(kv_tokens=64, host_kv_mb=1)
    core = build_core(ScriptedRunner(VOCAB, any_chunks=True), config)
    kv = core.scheduler.kv
    kv.rates = type(kv.rates)(bytes_per_s=1e12, recompute_s=1.0)
    for prompt in (PROMPT, (3,) * 50, PROMPT):
        one = sequence(numbers, prompt, answer=2)
        core.add(one)
        core.step()
        core.abort(one.seq_id)
        assert kv.usage().blocks_used == 0
        core.scheduler.check()
    core.add(sequence(numbers))
    drain(core)
