"""What the device gives up comes back whole, right, and only when that is faster."""

from dataclasses import dataclass, field, replace

import pytest

from engine.kv.contract import KvGroup
from engine.kv.host_tier import HostBlock, HostKey, HostTier
from engine.kv.rates import Rates, worth_restoring, worth_swapping
from engine.kv.wishes import Retention
from tests.engine.kv.desk import FULL, Answer, Desk, keep, outcome, small_host

ONE, TWO = list(range(20)), list(range(100, 120))
GROUPS = [(FULL,), (FULL, KvGroup((1,), window=6)), (KvGroup((0,), window=6),)]


def with_host(blocks: int = 64, min_uses: int = 0, groups: tuple[KvGroup, ...] = (FULL,)) -> Desk:
    return Desk(groups=groups, blocks=5, host=small_host(blocks, len(groups), min_uses=min_uses))


def host(desk: Desk) -> HostTier:
    assert desk.host is not None
    return desk.host


@pytest.mark.parametrize("groups", GROUPS)
def test_given_up_blocks_come_back(groups: tuple[KvGroup, ...]) -> None:
    desk = with_host(groups=groups)
    desk.serve(ONE)
    desk.serve(TWO)
    assert outcome(desk.serve(ONE)).hits_by_tier == {"host": 19}
    assert desk.kv.usage().hit_tokens["host"] == 19


def test_part_on_the_device_and_part_on_the_host() -> None:
    desk = with_host()
    desk.serve(ONE)
    desk.serve(TWO[:8])
    assert outcome(desk.serve(ONE)).hits_by_tier == {"device": 12, "host": 7}


def test_only_what_is_faster_comes_back() -> None:
    desk = with_host()
    desk.serve(ONE)
    desk.serve(TWO)
    desk.kv.rates = Rates(bytes_per_s=1000.0, recompute_s=0.001)
    assert desk.hit(ONE) == 0
    desk.kv.rates = Rates()
    desk.serve(TWO)
    assert desk.hit(ONE) == 0


@pytest.mark.parametrize(("num_bytes", "worth"), [(999, True), (1000, False), (1001, False)])
def test_the_decision_is_a_comparison_of_times(num_bytes: int, worth: bool) -> None:
    assert worth_restoring(num_bytes, 10, Rates(bytes_per_s=1000.0, recompute_s=0.1)) is worth
    assert worth_swapping(num_bytes // 2, 10, Rates(bytes_per_s=1000.0, recompute_s=0.1)) is (num_bytes < 1000)


def test_a_corrupt_block_is_a_miss_and_counted() -> None:
    """llama.cpp#27068: and nothing of the failed restore is left behind."""
    desk = with_host()
    desk.serve(ONE)
    desk.serve(TWO)
    key = next(iter(host(desk)._blocks))
    block = host(desk)._blocks[key]
    host(desk)._blocks[key] = replace(block, payload=b"\xff" + block.payload[1:])
    assert desk.hit(ONE) < 19
    assert desk.kv.usage().corrupt_restores == 1
    desk.serve(TWO)
    assert desk.hit(ONE) == 19


def test_every_flipped_bit_is_seen() -> None:
    block = HostBlock.of(bytes(range(64)), "", b"", b"")
    for bit in range(64 * 8):
        flipped = bytearray(block.payload)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not replace(block, payload=bytes(flipped)).intact


def test_bytes_are_bounded_and_the_oldest_goes() -> None:
    tier = HostTier(30, (10,))
    for number in range(5):
        tier.put((0, bytes([number])), HostBlock.of(bytes(10), "", b"", b""))
        tier.check()
    assert [(0, bytes([number])) in tier for number in range(5)] == [False, False, True, True, True]
    assert (tier.used_bytes, tier.evicted) == (30, 2)
    assert tier.fetch((0, b"\2")) is not None
    tier.put((0, b"\5"), HostBlock.of(bytes(10), "", b"", b""))
    assert (0, b"\2") in tier
    tier.put((0, b"\6"), HostBlock.of(bytes(31), "", b"", b""))
    assert (0, b"\6") not in tier


@dataclass
class Shelf:
    """A colder tier that only notes what it is given."""

    kept: list[HostKey] = field(default_factory=list)

    def put(self, key: HostKey, block: HostBlock) -> None:  # noqa: ARG002
        self.kept.append(key)

    def get(self, key: HostKey) -> HostBlock | None:  # noqa: ARG002
        return None

    def purge(self, salt: str) -> int:  # noqa: ARG002
        return 0


def test_a_colder_tier_gets_what_the_host_gives_up() -> None:
    shelf = Shelf()
    tier = HostTier(10, (10,), colder=shelf)
    for number in range(3):
        tier.put((0, bytes([number])), HostBlock.of(bytes(10), "", b"", b""))
    assert shelf.kept == [(0, b"\0"), (0, b"\1")]


def test_only_what_was_asked_for_again_is_admitted() -> None:
    desk = with_host(min_uses=1)
    desk.serve(ONE)
    desk.serve(TWO)
    assert len(host(desk)) == 0
    desk.serve(TWO)
    desk.serve(ONE)
    assert len(host(desk)) == 5


def test_a_late_payload_is_ignored() -> None:
    """vllm#46289: a save whose step never came is waited for no longer than two steps."""
    desk = with_host()
    desk.serve(ONE)
    answer = desk.answer(TWO)
    assert desk.start(answer)
    (save, *_) = desk.kv.take_transfers().saves
    for _ in range(3):
        desk.kv.take_transfers()
    desk.kv.saved(save.digest, save.group, bytes(32))
    desk.kv.saved(bytes(32), 0, bytes(32))
    assert len(host(desk)) == 0


def test_blocks_are_saved_before_they_are_written() -> None:
    """vllm#45704: saves come first in a step; the desk carries them out in that order and compares every word."""
    desk = with_host()
    for turn in range(40):
        desk.serve([*ONE[: 8 + turn % 12], turn])


def test_a_sequence_that_fails_before_its_restore_leaves_nothing_cached() -> None:
    desk = with_host()
    desk.serve(ONE)
    desk.serve(TWO)
    answer = desk.answer(ONE)
    assert desk.start(answer)
    assert answer.num_computed == 19
    desk.kv.take_transfers()
    desk.kv.discard(answer, 0.0)
    desk.live.remove(answer)
    desk.check()
    assert desk.kv.peek(desk.answer(ONE)) == 0


def test_what_must_vanish_is_not_kept_on_the_host() -> None:
    desk = Desk(blocks=5, host=small_host(64), retention=Retention(drop_expired=True, pinned_share=1.0))
    desk.serve(ONE, breakpoints=keep(20, 60))
    desk.serve(TWO)
    desk.now_s = 100
    assert desk.hit(ONE) == 0


def swapped(desk: Desk, generated: int) -> Answer:
    answer = desk.answer(ONE[:10])
    assert desk.start(answer)
    for token in range(generated):
        assert desk.step(answer)
        answer.output_ids.append(500 + token)
    assert desk.kv.prefers_swap(answer)
    desk.kv.swap_out(answer, 0.0)
    desk.live.remove(answer)
    desk.check()
    return answer


@pytest.mark.parametrize("generated", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("groups", GROUPS)
def test_a_swapped_sequence_goes_on_where_it_was(generated: int, groups: tuple[KvGroup, ...]) -> None:
    desk = with_host(min_uses=99, groups=groups)
    answer = swapped(desk, generated)
    desk.serve(TWO)
    assert desk.kv.swap_in(answer, len(answer.tokens), 0.0)
    desk.live.append(answer)
    assert answer.num_computed == len(answer.tokens) - 1
    assert desk.step(answer)
    desk.finish(answer)


def test_swap_is_not_preferred_without_room_or_speed() -> None:
    desk = with_host(blocks=1)
    answer = desk.answer(ONE)
    assert desk.start(answer)
    assert desk.step(answer)
    assert not desk.kv.prefers_swap(answer)
    desk.kv.host = None
    assert not desk.kv.prefers_swap(answer)
