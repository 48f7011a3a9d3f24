"""What stays when room is needed: every policy keeps the contract, and each protection does what it says."""

import random
from collections.abc import Callable, Iterable, Iterator

import pytest

from engine.kv.block_lists import NO_BLOCK, BlockLists
from engine.kv.retention import NO_TRACE, RETENTION, Session
from engine.kv.retention.hit_density import OCTAVES, kind_of, worth_by_octave
from engine.kv.wishes import Breakpoint, Retention
from tests.engine.kv.desk import Desk, keep, outcome

NEW = Session(known_uses=0, new_tokens=100)


def prompt(number: int, length: int = 12) -> list[int]:
    return [number * 1000 + position for position in range(length)]


@pytest.mark.parametrize("policy", RETENTION)
def test_what_is_added_is_given_up_once(policy: str) -> None:
    dice = random.Random(1)
    lists = BlockLists(50)
    order, inside = RETENTION[policy](lists, 50), set[int]()
    for _ in range(1000):
        block = dice.randrange(50)
        if block in inside and dice.random() < 0.5:
            order.reused(order.trace(block))
            lists.remove(block)
            inside.remove(block)
        elif block not in inside:
            order.released(block, dice.randrange(4), at_end=dice.random() < 0.2, session=NEW)
            order.add(block, oldest=dice.random() < 0.1)
            inside.add(block)
        elif dice.random() < 0.3:
            victim = order.evict()
            assert victim in inside
            inside.remove(victim)
    assert {order.evict() for _ in range(len(inside))} == inside
    assert order.evict() == NO_BLOCK
    order.reused(NO_TRACE)


@pytest.mark.parametrize("policy", RETENTION)
def test_without_hits_the_longest_unused_goes_first(policy: str) -> None:
    lists = BlockLists(8)
    order = RETENTION[policy](lists, 8)
    for block in (3, 1, 2):
        order.released(block, 0, at_end=False, session=NEW)
        order.add(block)
    assert [order.evict() for _ in range(3)] == [3, 1, 2]


@pytest.mark.parametrize("policy", RETENTION)
def test_tails_go_before_heads(policy: str) -> None:
    desk = Desk(blocks=9, retention=Retention(policy))
    desk.serve(prompt(1))
    desk.serve(prompt(2))
    desk.serve(prompt(3))
    desk.serve(prompt(4, 8))
    assert desk.hit(prompt(1)) in (4, 8)
    assert desk.kv.usage().evictions["capacity"] >= 2


@pytest.mark.parametrize("policy", RETENTION)
def test_used_memory_is_used_again_before_the_rest_is_touched(policy: str) -> None:
    desk = Desk(blocks=100, retention=Retention(policy))
    for _ in range(20):
        answer = desk.answer(prompt(1, 7), read=False)
        assert desk.start(answer)
        assert max(answer.tables[0]) < 3
        desk.finish(answer)


def test_a_used_prefix_outlives_an_unused_one() -> None:
    desk = Desk(blocks=9)
    desk.serve(prompt(1))
    desk.serve(prompt(2))
    assert desk.hit(prompt(1)) == 11
    desk.serve(prompt(3))
    desk.serve(prompt(4, 8))
    assert desk.hit(prompt(1)) == 11


def test_kinds_tell_blocks_apart() -> None:
    kinds = {
        kind_of(uses, at_end=False, session=Session(known, tokens))
        for uses in (0, 1, 2)
        for known in (0, 1, 8)
        for tokens in (0, 2048, 8192)
    }
    assert len(kinds) == 27
    assert kind_of(0, at_end=True, session=NEW) not in kinds
    assert kind_of(1, at_end=True, session=NEW) in kinds


def test_worth_is_hits_per_stay() -> None:
    """All of 10 blocks come back in the first octave: half a width each. Nothing comes back later."""
    worth = worth_by_octave(10, [10.0] + [0.0] * (OCTAVES - 1))
    assert worth[0] == pytest.approx(10 / (11 - 5))
    assert worth[1:] == [0.0] * (OCTAVES - 1)


def test_worth_waits_through_a_silence() -> None:
    """Nobody comes back at once and half do after four widths: waiting makes a block worth more, then nothing."""
    asked = [0.0, 0.0, 0.0, 50.0] + [0.0] * (OCTAVES - 4)
    worth = worth_by_octave(100, asked)
    assert 0 < worth[0] < worth[1] < worth[2] < worth[3]
    assert worth[4] == 0


def serve_all(prompts: Iterable[list[int]], blocks: int, policy: str) -> float:
    """Serve prompts one after the other, without the desk's proofs; return the share of tokens found."""
    desk = Desk(blocks=blocks, retention=Retention(policy))
    for now, tokens in enumerate(prompts):
        answer = desk.answer(tokens)
        assert desk.kv.admit(answer, len(tokens), float(now))
        answer.num_computed = len(tokens)
        desk.kv.take_transfers()
        desk.kv.computed(answer, float(now))
        desk.kv.release(answer, float(now))
    desk.check()
    usage = desk.kv.usage()
    return usage.hit_tokens["device"] / usage.query_tokens


def sessions(seed: int) -> Iterator[list[int]]:
    """Three of four prompts are asked once; the others grow and come back after a silence."""
    dice = random.Random(seed)
    waiting: list[tuple[int, int, int]] = []
    for turn in range(1000):
        due = [one for one in waiting if one[0] <= turn]
        if due:
            _, number, length = due[0]
            waiting.remove(due[0])
            length += 8
        else:
            number, length = turn, 40
        yield prompt(number, length)
        if number % 4 == 0 and length < 100:
            waiting.append((turn + dice.randint(7, 20), number, length))


def documents(seed: int) -> Iterator[list[int]]:
    """Questions about documents, some asked about often and most seldom."""
    dice = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(130)]
    for turn in range(1000):
        (document,) = dice.choices(range(130), weights)
        yield [*prompt(document, 80), *(10**6 + turn * 8 + position for position in range(8))]


def rounds(seed: int) -> Iterator[list[int]]:
    """The same prompts again and again, together twice as large as the pool: the worst there is for LRU."""
    return (prompt(seed * 100 + turn % 20, 40) for turn in range(400))


def neighbours(seed: int) -> Iterator[list[int]]:
    """Most prompts go on from one that was just asked: the best there is for LRU."""
    dice = random.Random(seed)
    lately: list[tuple[int, int]] = []
    for turn in range(1000):
        if lately and dice.random() < 0.6:
            number, length = lately.pop(-1 - min(len(lately) - 1, int(dice.expovariate(1 / 8))))
            length = min(200, length + 12)
        else:
            number, length = turn, 40
        lately.append((number, length))
        yield prompt(number, length)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "least"), [(sessions, 1.3), (documents, 1.3), (rounds, 10.0), (neighbours, 0.95)]
)
def test_hit_density_finds_more_than_lru(workload: Callable[[int], Iterator[list[int]]], least: float) -> None:
    found = {policy: serve_all(workload(1), 100, policy) for policy in RETENTION}
    assert found["hit-density"] > least * found["lru"]


def test_a_breakpoint_outlives_fresher_prompts_until_it_expires() -> None:
    desk = Desk(blocks=9)
    desk.serve(prompt(1), breakpoints=keep(12, 300))
    for number in range(2, 9):
        desk.serve(prompt(number))
    assert desk.kv.usage().blocks_pinned == 3
    assert desk.hit(prompt(1)) == 11
    desk.now_s = 301
    for number in range(2, 9):
        desk.serve(prompt(number))
    found = outcome(desk.serve(prompt(1)))
    assert (found.hit_tokens, found.miss) == (0, "expired")
    assert desk.kv.usage().blocks_pinned == 0


def test_a_hit_renews_a_breakpoint() -> None:
    desk = Desk(blocks=9)
    desk.serve(prompt(1), breakpoints=keep(12, 300))
    for now_s in (250, 500, 750):
        desk.now_s = now_s
        assert desk.hit(prompt(1)) == 11
        for number in range(2, 9):
            desk.serve(prompt(number))
    assert desk.hit(prompt(1)) == 11


def test_an_hour_outlives_five_minutes() -> None:
    desk = Desk(blocks=9)
    desk.serve(prompt(1), breakpoints=(Breakpoint(4, 3600), Breakpoint(12, 300)))
    desk.now_s = 400
    for number in range(2, 9):
        desk.serve(prompt(number))
    assert desk.kv.usage().blocks_pinned == 1
    assert desk.hit(prompt(1)) == 4


def test_an_expired_prefix_stays_while_there_is_room_unless_it_must_vanish() -> None:
    for drop, hit in ((False, 11), (True, 0)):
        desk = Desk(retention=Retention(drop_expired=drop))
        desk.serve(prompt(1), breakpoints=keep(8, 300))
        desk.now_s = 300
        assert desk.hit(prompt(1)) == hit


def test_what_must_vanish_vanishes_under_a_reader_too() -> None:
    desk = Desk(retention=Retention(drop_expired=True))
    desk.serve(prompt(1), breakpoints=keep(8, 300))
    reader = desk.answer(prompt(1))
    assert desk.start(reader)
    desk.kv._cached.trees[""].first[0].expires_s = 0.0
    desk.now_s = 900
    assert desk.hit(prompt(1)) == 0
    assert desk.step(reader)
    desk.finish(reader)


def test_pins_are_bounded() -> None:
    desk = Desk(blocks=12, retention=Retention(pinned_share=0.25))
    desk.serve(prompt(1), breakpoints=keep(12))
    desk.serve(prompt(2), breakpoints=keep(12))
    usage = desk.kv.usage()
    assert (usage.blocks_pinned, usage.pins_refused) == (3, 3)


def test_pins_never_starve_who_runs() -> None:
    desk = Desk(blocks=6, retention=Retention(pinned_share=1.0))
    desk.serve(prompt(1), breakpoints=keep(12))
    desk.serve(prompt(2), breakpoints=keep(12))
    answer = desk.answer(prompt(3, 24))
    assert desk.start(answer)
    assert desk.step(answer)
    assert desk.kv.usage().evictions["pin"] == 6


def test_a_tenant_keeps_its_floor() -> None:
    desk = Desk(blocks=16, retention=Retention(tenant_floor=0.2))
    desk.serve(prompt(1), "small")
    for number in range(2, 30):
        desk.serve(prompt(number), "large")
    assert desk.hit(prompt(1), "small") == 11


def test_without_a_floor_the_other_tenant_takes_it() -> None:
    desk = Desk(blocks=16)
    desk.serve(prompt(1), "small")
    for number in range(2, 30):
        desk.serve(prompt(number), "large")
    assert desk.hit(prompt(1), "small") == 0


def test_floors_never_starve_who_runs() -> None:
    desk = Desk(blocks=8, retention=Retention(tenant_floor=0.5))
    desk.serve(prompt(1), "a")
    answer = desk.answer(prompt(2, 32), "b")
    assert desk.start(answer)
    assert desk.kv.usage().evictions["floor"] == 3


def test_floors_share_half_the_pool_however_many_tenants() -> None:
    desk = Desk(blocks=64, retention=Retention(tenant_floor=0.2))
    for tenant in range(16):
        desk.serve(prompt(tenant, 8), str(tenant))
    assert desk.kv._cached.books[0].evictable.floor_blocks() == 2


def test_the_more_important_stay_longer() -> None:
    desk = Desk(blocks=9)
    for number, priority in ((1, -1), (2, 0), (3, 1)):
        answer = desk.answer(prompt(number))
        answer.priority = priority
        assert desk.start(answer)
        assert desk.step(answer)
        desk.finish(answer)
    desk.serve(prompt(4))
    assert [desk.kv.peek(desk.answer(prompt(number))) for number in (1, 2, 3)] == [11, 11, 0]
    desk.serve(prompt(5))
    assert desk.kv.peek(desk.answer(prompt(1))) == 11
