"""Leases under random interleavings: one is believed, nothing is lost or doubled, and nobody waits for ever."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.decide import Discard, Store
from policies.leases import (
    Alone,
    Ask,
    Following,
    Held,
    Ignore,
    Take,
    Terms,
    Wait,
    confirmed,
    follow,
    hands_over,
    heard,
    holds,
    next_step,
    shareable,
    taken,
)

TERMS = Terms(1.0)
CHUNKS = 6


@dataclass
class Lease:
    """What Redis holds."""

    token: str = ""
    until_s: float = 0.0

    def holder(self, now_s: float) -> str:
        return self.token if now_s < self.until_s else ""


@dataclass
class Worker:
    """One worker: leads, follows, or is done; may be paused or killed."""

    name: str
    state: Following | None = None
    held: Held | None = None
    token: str = ""
    said: int = 0
    answer: list[tuple[str, int]] = field(default_factory=list)
    done: bool = False
    dead: bool = False
    paused_until_s: float = 0.0


class World:
    """A fleet over one lease; time moves in small steps, and whoever runs is drawn."""

    def __init__(self, seed: int, workers: int) -> None:
        self.dice = random.Random(seed)
        self.lease = Lease()
        self.workers = [Worker(str(number)) for number in range(workers)]
        self.now_s = 0.0
        self.tokens = 0
        self.written: list[str] = []
        self.mail: dict[str, list[tuple[str, int]]] = {worker.name: [] for worker in self.workers}

    def join(self, worker: Worker) -> None:
        """What the script does, and what the worker makes of it."""
        holder = self.lease.holder(self.now_s)
        if holder:
            before = worker.state
            left_s = self.lease.until_s - self.now_s
            worker.state = follow(holder, left_s, TERMS, self.now_s, before)
            if before is None or before.token != holder:
                worker.answer = []
            leader = next(one for one in self.workers if one.token == holder)
            have = worker.state.chunks
            self.mail[worker.name] += [(holder, at) for at in range(have, leader.said)]
            return
        self.tokens += 1
        worker.token, worker.state, worker.said, worker.answer = f"t{self.tokens}", None, 0, []
        worker.held = Held(self.now_s)
        self.lease = Lease(worker.token, self.now_s + TERMS.lease_s)

    def lead(self, worker: Worker) -> None:
        """One chunk, or the end; Redis has the last word on both."""
        assert worker.held is not None
        kept = self.lease.holder(self.now_s) == worker.token
        believed = holds(worker.held, TERMS, self.now_s)
        assert believed or not kept, "a holder doubts its lease only once it has lapsed"
        worker.held = confirmed(worker.held, self.now_s, kept=kept)
        if worker.said < CHUNKS:
            worker.said += 1
            worker.answer.append((worker.token, worker.said - 1))
            if kept:
                self.lease.until_s = self.now_s + TERMS.lease_s
                for other in self.workers:
                    if other.state is not None and other.state.token == worker.token and self.dice.random() < 0.9:
                        self.mail[other.name].append((worker.token, worker.said - 1))
            return
        worker.done = True
        if kept:
            self.written.append(worker.token)
            for other in self.workers:
                if other.state is not None and other.state.token == worker.token:
                    self.mail[other.name].append((worker.token, CHUNKS))
            self.lease = Lease()

    def listen(self, worker: Worker) -> None:
        """Takes what came, or sees what silence means."""
        assert worker.state is not None
        if not self.mail[worker.name]:
            step = next_step(worker.state, TERMS, self.now_s)
            if isinstance(step, Ask):
                self.join(worker)
            elif isinstance(step, Alone):
                worker.answer, worker.done = [("alone", at) for at in range(CHUNKS)], True
            else:
                assert isinstance(step, Wait)
                assert step.until_s > self.now_s
            return
        token, position = self.mail[worker.name].pop(0)
        end = position == CHUNKS
        verdict = heard(worker.state, token, position, 0 if end else 1)
        if isinstance(verdict, Ask):
            self.mail[worker.name].clear()
            self.join(worker)
        elif isinstance(verdict, Take):
            new = 0 if end else 1 - verdict.known
            worker.answer += [(token, position)] * new
            worker.state = taken(verdict.following, new, TERMS, self.now_s)
            worker.done = end
        else:
            assert isinstance(verdict, Ignore)
            assert token != worker.state.token

    def step(self) -> None:
        self.now_s += self.dice.choice((0.0, 1 / 64, 3 / 64, 13 / 64))
        worker = self.dice.choice(self.workers)
        if worker.dead or worker.done or self.now_s < worker.paused_until_s:
            return
        luck = self.dice.random()
        if luck < 0.01 and sum(not one.dead for one in self.workers) > 1:
            worker.dead = True
        elif luck < 0.04:
            worker.paused_until_s = self.now_s + self.dice.choice((0.5, 1.5, 3.0))
        elif worker.held is not None:
            self.lead(worker)
        elif worker.state is not None:
            self.listen(worker)
        else:
            self.join(worker)


@pytest.mark.parametrize("seed", range(150))
def test_every_worker_that_lives_gets_one_whole_answer(seed: int) -> None:
    world = World(seed, workers=2 + seed % 5)
    for _ in range(6000):
        world.step()
        holder = world.lease.holder(world.now_s)
        believers = [
            one
            for one in world.workers
            if one.held is not None and not one.done and holds(one.held, TERMS, world.now_s)
        ]
        assert len(believers) <= 1, "two believe that they lead"
        assert not believers or believers[0].token == holder
        if all(one.done or one.dead for one in world.workers):
            break
    for worker in world.workers:
        assert worker.done or worker.dead, "somebody waits for ever"
        if worker.done:
            assert [position for _, position in worker.answer] == list(range(CHUNKS))
            assert len({token for token, _ in worker.answer}) == 1, "an answer of two calls"
    assert len(set(world.written)) == len(world.written)


@given(st.floats(0, 10), st.floats(0, 10), st.booleans())
def test_what_is_lost_stays_lost_and_a_pause_makes_doubt(sent_s: float, later_s: float, kept: bool) -> None:
    lost = confirmed(Held(sent_s), sent_s, kept=False)
    assert not holds(confirmed(lost, later_s, kept=kept), TERMS, later_s)
    assert holds(Held(sent_s), TERMS, sent_s + later_s) == (sent_s + later_s - sent_s < TERMS.lease_s)


def test_a_lapsed_lease_is_noticed_within_a_lease_of_the_last_beat() -> None:
    following = taken(follow("t", 1.0, TERMS, 0.0), 0, TERMS, 0.0)
    step = next_step(following, TERMS, 0.0)
    assert isinstance(step, Wait)
    assert step.until_s < TERMS.lease_s
    again = follow("t", TERMS.lease_s - step.until_s, TERMS, step.until_s, following)
    last = next_step(again, TERMS, step.until_s)
    assert isinstance(last, Wait)
    assert TERMS.lease_s < last.until_s < TERMS.lease_s + 0.05


def test_which_answers_are_shared_and_which_failures_are_tried_again() -> None:
    assert shareable(Store(1.0))
    assert shareable(Discard("size"))
    assert not shareable(Discard("refusal"))
    assert hands_over("status", 503, 1)
    assert hands_over("cut", 502, 1)
    assert not hands_over("status", 503, 2)
    assert not hands_over("status", 429, 1)
    assert not hands_over("status", 400, 1)
    assert not hands_over("timeout", 504, 1)
    assert not hands_over("credentials", 502, 1)
