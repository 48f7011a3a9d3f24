"""Hash and look-up of a prompt cost little next to computing it."""

import time

import pytest

from engine.kv.contract import KvGroup
from engine.kv.kv_cache import KvCache
from engine.kv.wishes import Retention
from tests.engine.kv.desk import Answer

NS = 1e9
MOST_NS_PER_TOKEN = 300
TOKENS = 16_000


@pytest.mark.slow
def test_hash_and_look_up_cost_at_most_300_ns_a_token() -> None:
    """The best of many tries, in blocks of 16 tokens, all of them found; the machine may be busy."""
    kv = KvCache((KvGroup((0,)),), (1200,), 16, bytes(32), retention=Retention())
    prompt = tuple(range(TOKENS))
    first = Answer(0, prompt)
    assert kv.admit(first, TOKENS, 0.0)
    first.num_computed = TOKENS
    kv.computed(first, 0.0)
    kv.release(first, 0.0)
    best = float("inf")
    for number in range(1, 20):
        began = time.perf_counter()
        found = kv.peek(Answer(number, prompt))
        best = min(best, time.perf_counter() - began)
        assert found == TOKENS - 1
    assert best / TOKENS * NS < MOST_NS_PER_TOKEN
