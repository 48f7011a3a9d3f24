"""Preemption by swap: where moving is cheaper than computing, what was computed comes back from the host."""

import pytest

from engine.config import EngineConfig
from engine.kv.contract import KvGroup
from engine.kv.rates import Rates
from engine.pool import new_kv
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.work import Plan
from tests.engine import tiny
from tests.engine.paper_model import PaperRunner, PaperStore

GROUPS = (KvGroup((0,)),)
CHEAP_TO_MOVE, CHEAP_TO_COMPUTE = Rates(bytes_per_s=1e9, recompute_s=1.0), Rates(bytes_per_s=1.0, recompute_s=1e-9)


class Paper:
    """A scheduler whose plans are carried out on paper."""

    def __init__(self, rates: Rates, config: EngineConfig) -> None:
        self.kv = new_kv(config, GROUPS)
        self.kv.rates = rates
        self.scheduler = Scheduler(config, self.kv, 1024, any_chunks=True)
        store = PaperStore(self.kv.num_blocks, config.block_size)
        self.runner = PaperRunner(GROUPS, store, self.kv.saved)
        self.computed: dict[int, int] = {}

    def step(self) -> Plan:
        """Run a step; the model's tokens are appended until an answer has its length."""
        plan = self.scheduler.plan(0.0)
        logits = self.runner.run(plan)
        self.scheduler.computed(plan, 0.0)
        for item in plan.work:
            self.computed[item.sequence.seq_id] = self.computed.get(item.sequence.seq_id, 0) + item.count
        for row, item in enumerate([item for item in plan.work if item.samples]):
            item.sequence.output_ids.append(int(logits[row].argmax()))
            if len(item.sequence.output_ids) == item.sequence.params.max_tokens:
                self.scheduler.finish(item.sequence, 0.0)
        self.scheduler.check()
        return plan


def run(rates: Rates) -> tuple[Paper, list[Sequence], set[bool]]:
    """Two answers that do not fit together; whether preempted ones were swapped."""
    paper = Paper(rates, tiny.small_config(kv_tokens=48, host_kv_mb=1, max_running=2))
    params = SamplingParams(max_tokens=22, temperature=0)
    both = [tiny.new_sequence(number, (number, 1, 2, 3, 4, 5), params) for number in range(2)]
    for one in both:
        paper.scheduler.add(one)
    swapped: set[bool] = set()
    while paper.scheduler.has_work:
        swapped |= {one.swapped for one in paper.step().preempted}
    return paper, both, swapped


@pytest.mark.parametrize(("rates", "swaps"), [(CHEAP_TO_MOVE, True), (CHEAP_TO_COMPUTE, False)])
def test_what_is_cheaper_is_done_and_the_answer_is_the_same(rates: Rates, swaps: bool) -> None:
    paper, both, swapped = run(rates)
    assert swapped == {swaps}
    assert sum(one.num_preemptions for one in both) > 0
    roomy = Paper(rates, tiny.small_config())
    for one in both:
        other = tiny.new_sequence(one.seq_id, one.prompt_ids, one.params)
        roomy.scheduler.add(other)
        while roomy.scheduler.has_work:
            roomy.step()
        assert other.output_ids == one.output_ids
    assert paper.kv.usage().blocks_used == 0


def test_what_was_swapped_is_not_computed_again() -> None:
    paper, both, _ = run(CHEAP_TO_MOVE)
    needed = sum(one.num_tokens - 1 for one in both)
    preemptions = sum(one.num_preemptions for one in both)
    assert sum(paper.computed.values()) <= needed + preemptions


def test_a_swapped_sequence_may_be_aborted() -> None:
    paper = Paper(CHEAP_TO_MOVE, tiny.small_config(kv_tokens=48, host_kv_mb=1, max_running=2))
    params = SamplingParams(max_tokens=22, temperature=0)
    for number in range(2):
        paper.scheduler.add(tiny.new_sequence(number, (number, 1, 2, 3, 4, 5), params))
    while not (preempted := paper.step().preempted):
        pass
    assert paper.scheduler.finish(preempted[0], 0.0)
    while paper.scheduler.has_work:
        paper.step()
    assert paper.kv.usage().blocks_used == 0
