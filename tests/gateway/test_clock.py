"""A clock that is set, by hours, while a worker runs or between two: nothing early, nothing immortal."""

import itertools
from dataclasses import dataclass

import msgspec
import pytest

from gateway.clock import STEP_S, Clock, boot_id, since_boot_s
from gateway.layers.entry import Entry, Sealer, StoredAnswer
from gateway.layers.opened import OpenedEntries
from policies.controls import NO_CONTROLS
from policies.decide import Hit, Miss, judge

KEY, TENANT, TTL_S, HOUR_S = b"k" * 32, "t1", 600.0, 3600.0
STEPS_S = (-30 * HOUR_S, -3 * HOUR_S, -90.0, 90.0, 3 * HOUR_S, 30 * HOUR_S)


@dataclass(slots=True)
class Machine:
    """A wall clock that may be set, and one since boot that may not."""

    wall_s: float = 1_800_000_000.0
    steady_s: float = 5_000.0
    boot: bytes = b"b" * 16

    def worker(self) -> Clock:
        return Clock.start(lambda: self.wall_s, lambda: self.steady_s, self.boot)

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


class Shelf:
    """One worker's view of a stored value."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sealer = Sealer(b"s" * 40, clock=clock)
        self.opened = OpenedEntries(self.sealer)

    def store(self) -> bytes:
        answer: StoredAnswer = ("id", 1, "m", None, {})
        entry = Entry(KEY, TENANT, self.clock.now_s(), TTL_S, 0, ("m",), "", (), (), answer, (), "req")
        return self.sealer.seal(entry)

    def judged(self, stored: bytes) -> Hit | Miss:
        opened = self.opened.open(stored, TENANT, KEY)
        decision = judge(opened.life, None, NO_CONTROLS, self.clock.now_s())
        assert isinstance(decision, Hit | Miss)
        return decision


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_step_changes_nothing_for_a_worker_that_runs(step_s: float) -> None:
    machine = Machine()
    shelf = Shelf(machine.worker())
    stored = shelf.store()
    machine.wall_s += step_s
    machine.passes(TTL_S / 2)
    hit = shelf.judged(stored)
    assert isinstance(hit, Hit)
    assert hit.age_s == pytest.approx(TTL_S / 2)
    machine.passes(TTL_S / 2 + 1)
    assert shelf.judged(stored) == Miss("expired")


@pytest.mark.parametrize(("before_s", "after_s"), [*itertools.product((0.0, TTL_S - 1), STEPS_S)])
def test_a_worker_that_begins_after_a_step_knows_how_old_an_entry_is(before_s: float, after_s: float) -> None:
    machine = Machine()
    stored = Shelf(machine.worker()).store()
    machine.passes(before_s)
    machine.wall_s += after_s
    later = Shelf(machine.worker())
    hit = later.judged(stored)
    assert isinstance(hit, Hit)
    assert hit.age_s == pytest.approx(before_s)
    machine.passes(TTL_S - before_s + 1)
    assert later.judged(stored) == Miss("expired")
    for _ in range(50):  # never again, whatever the wall comes to say
        machine.passes(HOUR_S)
        assert later.judged(stored) == Miss("expired")


def test_what_is_sealed_again_keeps_its_age() -> None:
    machine = Machine()
    first = Shelf(machine.worker())
    stored = first.store()
    machine.passes(100)
    machine.wall_s -= 5 * HOUR_S
    second = Shelf(machine.worker())
    copy = second.sealer.seal(msgspec.structs.replace(second.sealer.open(stored, TENANT, KEY), ttl_s=TTL_S))
    machine.passes(100)
    for shelf in (first, second):
        hit = shelf.judged(copy)
        assert isinstance(hit, Hit)
        assert hit.age_s == pytest.approx(200)


def test_another_machine_goes_by_the_wall_and_trusts_no_entry_from_the_future() -> None:
    one, other = Machine(), Machine(boot=b"o" * 16, steady_s=77.0)
    stored = Shelf(one.worker()).store()
    other.wall_s += 100
    hit = Shelf(other.worker()).judged(stored)
    assert isinstance(hit, Hit)
    assert hit.age_s == pytest.approx(100)
    other.wall_s -= 3 * HOUR_S
    assert Shelf(other.worker()).judged(stored) == Miss("clock")


def test_a_system_that_does_not_name_its_boots_goes_by_the_wall() -> None:
    one, other = Machine(boot=b""), Machine(boot=b"", steady_s=9.0)
    hit = Shelf(other.worker()).judged(Shelf(one.worker()).store())
    assert isinstance(hit, Hit)
    assert hit.age_s == pytest.approx(0)


def test_a_step_is_seen() -> None:
    machine = Machine()
    clock = machine.worker()
    machine.passes(HOUR_S)
    assert clock.stepped_s() == pytest.approx(0)
    machine.wall_s += 2 * STEP_S
    assert clock.stepped_s() == pytest.approx(2 * STEP_S)


def test_this_machine_names_its_boot_and_counts_from_it() -> None:
    assert len(boot_id()) in (0, 16)
    assert since_boot_s() <= since_boot_s()
