"""What a first event tells of a prompt is true: read is what the cache counted, written is there to be read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import Core, CoreParts
from engine.kv.contract import KvGroup
from engine.kv.kv_cache import KvCache, Retention
from engine.kv.wishes import CacheWishes
from engine.prompt_use import PromptUse
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from tests.engine import tiny
from tests.engine.fakes import CountingObserver, ScriptedRunner, byte_tokenizer

CONFIG = tiny.small_config()
PARAMS = SamplingParams(max_tokens=3, temperature=0, ignore_eos=True)
PROMPTS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(
    lambda blocks: tuple(10 + block for block in blocks for _ in range(3))
)


def build(any_chunks: bool, *, prefix_cache: bool = True) -> Core:
    """A core over the real cache, big enough for everything a test sends."""
    kv = KvCache((KvGroup((0,)),), (512,), CONFIG.block_size, b"root", retention=Retention())
    runner = ScriptedRunner(300, any_chunks=any_chunks)
    config = replace(CONFIG, kv_tokens=2048, prefix_cache=prefix_cache)
    parts = CoreParts(
        scheduler=Scheduler(config, kv, 1024, any_chunks),
        runner=runner,
        tokenizer=byte_tokenizer(),
        eos_ids=frozenset(),
        observer=CountingObserver(),
        clock=lambda: 0.0,
    )
    return Core(parts)


def new(number: int, prompt: tuple[int, ...], salt: str) -> Sequence:
    sequence = tiny.new_sequence(number, prompt, PARAMS)
    sequence.cache = CacheWishes(salt=salt)
    return sequence


def run(core: Core, sequences: list[Sequence]) -> dict[int, PromptUse]:
    """What each first event told; no later one tells anything."""
    for sequence in sequences:
        assert core.add(sequence) == []
    told: dict[int, PromptUse] = {}
    seen: set[int] = set()
    while core.has_work:
        for event in core.step():
            assert (event.prompt is not None) is (event.seq_id not in seen)
            seen.add(event.seq_id)
            if event.prompt is not None:
                told[event.seq_id] = event.prompt
    return told


ROUNDS = st.lists(
    st.lists(st.tuples(PROMPTS, st.sampled_from("ab")), min_size=1, max_size=3), min_size=1, max_size=4
)


@pytest.mark.slow
@given(ROUNDS, st.booleans())
def test_counts_are_those_of_the_cache_and_add_up(
    rounds: list[list[tuple[tuple[int, ...], str]]], any_chunks: bool
) -> None:
    core = build(any_chunks)
    number = 0
    read = 0
    for asked in rounds:
        sequences = []
        for prompt, salt in asked:
            sequences.append(new(number, prompt, salt))
            number += 1
        told = run(core, sequences)
        assert told.keys() == {sequence.seq_id for sequence in sequences}
        for sequence in sequences:
            use, total = told[sequence.seq_id], len(sequence.prompt_ids)
            assert 0 <= use.cached < total
            assert 0 <= use.written <= total - use.cached
            assert use.miss != "salt"
            read += use.cached
            again = new(10_000 + sequence.seq_id, sequence.prompt_ids, sequence.cache.salt)
            again.hit_unit = sequence.hit_unit
            assert (
                core.scheduler.kv.peek(again)
                >= min(use.cached + use.written, total - 1) // again.hit_unit * again.hit_unit
            )
    assert sum(core.scheduler.kv.usage().hit_tokens.values()) == read


def test_another_salt_reads_nothing_and_is_told_nothing_of_it() -> None:
    core = build(any_chunks=True)
    prompt = tuple(range(10, 50))
    first = run(core, [new(0, prompt, "a")])[0]
    assert (first.cached, first.written, first.miss) == (0, 40, "cold")
    other = run(core, [new(1, prompt, "b")])[1]
    assert (other.cached, other.written, other.miss) == (0, 40, "cold")
    again = run(core, [new(2, prompt, "a")])[2]
    assert (again.cached, again.written, again.miss) == (39, 1, None)


@pytest.mark.parametrize("same", [4, 7, 20, 39])
def test_the_first_token_that_differs_is_named(same: int) -> None:
    core = build(any_chunks=True)
    prompt = tuple(range(10, 50))
    run(core, [new(0, prompt, "a")])
    use = run(core, [new(1, (*prompt[:same], *(250 for _ in prompt[same:])), "a")])[1]
    assert (use.miss, use.missed_at) == ("differs", same)
    assert same - CONFIG.block_size < use.cached <= same


def test_without_a_prefix_cache_nothing_is_read_written_or_missed() -> None:
    core = build(any_chunks=True, prefix_cache=False)
    prompt = tuple(range(10, 50))
    assert [run(core, [new(number, prompt, "a")])[number] for number in range(2)] == [PromptUse()] * 2
