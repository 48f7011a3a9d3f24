"""A scheduler without a model: steps in which every token sampled is 7."""

from engine.kv.wishes import CacheWishes
from engine.pool import new_kv
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.work import Plan
from tests.engine import tiny

Span = tuple[int, int, int]


def make(kv_tokens: int = 64, any_chunks: bool = False, **changes: object) -> Scheduler:
    """A scheduler over an empty pool."""
    config = tiny.small_config(kv_tokens=kv_tokens, **changes)
    return Scheduler(config, new_kv(config), 1024, any_chunks)


def sequence(
    seq_id: int,
    prompt: int | tuple[int, ...],
    answer: int = 8,
    *,
    tenant: str = "",
    priority: int = 0,
    at_s: float = 0.0,
) -> Sequence:
    """A sequence; a prompt given as a number has that many tokens nobody else has."""
    ids = tuple(range(1000 * seq_id, 1000 * seq_id + prompt)) if isinstance(prompt, int) else prompt
    one = tiny.new_sequence(seq_id, ids, SamplingParams(max_tokens=answer, temperature=0))
    one.cache, one.priority, one.arrival_s = CacheWishes(salt=tenant), priority, at_s
    return one


def family(seq_id: int, prompt: int | tuple[int, ...], n: int, answer: int = 8) -> Sequence:
    """A leader whose followers have the next ids."""
    leader, *followers = [sequence(seq_id + index, prompt, answer) for index in range(n)]
    for index, one in enumerate(followers, 1):
        one.prompt_ids, one.sample_index = leader.prompt_ids, index
    leader.siblings = followers
    return leader


def advance(scheduler: Scheduler, now_s: float = 0.0) -> Plan:
    """One step; answers end at their length."""
    plan = scheduler.plan(now_s)
    joining = scheduler.joining(plan)
    sampling = [
        one for item in plan.work if item.samples for one in (item.sequence, *joining.get(item.sequence, ()))
    ]
    scheduler.computed(plan, now_s)
    for leader in joining:
        scheduler.fork(leader, joining[leader])
    for one in sampling:
        one.output_ids.append(7)
        if len(one.output_ids) >= one.params.max_tokens:
            scheduler.finish(one, now_s)
    scheduler.check()
    return plan


def drain(scheduler: Scheduler, limit: int = 2000) -> None:
    """Run until everybody has finished."""
    while scheduler.has_work:
        assert limit, "no end in sight"
        limit -= 1
        advance(scheduler)
    assert scheduler.kv.usage().blocks_used == 0


def spans(plan: Plan) -> list[Span]:
    """Who computes what: (sequence, start, count)."""
    return [(item.sequence.seq_id, item.start, item.count) for item in plan.work]
