"""What one tenant caches is not there for another, and a digest alone proves nothing."""

from hypothesis import given
from hypothesis import strategies as st

from engine.kv.digests import DIGEST_BYTES
from tests.engine.kv.desk import Desk, keep, outcome, small_host

PROMPT = list(range(20))


def test_the_same_prompt_under_another_salt_is_a_miss() -> None:
    """vllm#16016, CVE-2025-46570: and under the same salt it is a hit, which shows that the test can tell."""
    desk = Desk()
    desk.serve(PROMPT, "a")
    assert desk.hit(PROMPT, "b") == 0
    assert desk.hit(PROMPT, "a") == 19


def test_salts_that_look_alike_are_different() -> None:
    desk = Desk(blocks=64)
    salts = ["", "a", "A", "a ", "a\0", "aa"]
    assert [desk.hit(PROMPT, salt) for salt in salts] == [0] * len(salts)


def test_another_tenants_prompt_is_for_the_metric_alone() -> None:
    desk = Desk()
    desk.serve(PROMPT, "a")
    found = outcome(desk.serve(PROMPT, "b"))
    assert (found.miss, found.told_miss) == ("salt", "cold")
    assert desk.kv.usage().misses["salt"] == 1


def test_the_host_tier_keeps_tenants_apart() -> None:
    """sglang#37160, LMCache#4825: the same digest, salt included, in every tier."""
    desk = Desk(blocks=5, host=small_host(64))
    desk.serve(PROMPT, "a")
    desk.serve(range(50, 70), "b")
    assert outcome(desk.serve(PROMPT, "b")).hits_by_tier == {}
    desk.serve(range(50, 70), "c")
    assert outcome(desk.serve(PROMPT, "a")).hits_by_tier == {"host": 19}


def test_a_part_of_a_block_is_not_copied_from_another_tenant() -> None:
    desk = Desk(block_size=8)
    desk.serve(PROMPT[:16], "a")
    assert desk.hit([*PROMPT[:14], 99, 98], "b") == 0


def test_a_colliding_first_block_is_not_a_hit() -> None:
    """vllm#12621, vllm#54727: with a digest that collides always, tokens are compared."""

    def always_the_same(parent: bytes, tokens: bytes) -> bytes:
        return bytes(DIGEST_BYTES)

    desk = Desk()
    desk.kv._cached.digest = always_the_same
    desk.serve(PROMPT[:4])
    assert desk.hit([9, 9, 9, 9, 9]) == 0
    assert desk.kv.usage().collisions == 1


def test_equal_tokens_behind_a_colliding_parent_are_not_a_hit() -> None:
    """nano-vllm compares a block's own tokens only; the parent must be the same too."""

    def by_tokens(parent: bytes, tokens: bytes) -> bytes:
        return tokens.ljust(DIGEST_BYTES, b"\0")

    desk = Desk()
    desk.kv._cached.digest = by_tokens
    desk.serve([1, 1, 1, 1, 7, 7, 7, 7])
    assert desk.hit([2, 2, 2, 2, 7, 7, 7, 7, 3]) == 0
    assert desk.hit([1, 1, 1, 1, 7, 7, 7, 7, 3]) == 8


def test_a_purge_forgets_a_tenant_in_every_tier() -> None:
    desk = Desk(blocks=8, host=small_host(64))
    desk.serve(PROMPT, "a", breakpoints=keep(20))
    desk.serve(range(50, 70), "b")
    assert desk.kv.purge("a") > 0
    desk.check()
    assert outcome(desk.serve(PROMPT, "a")).hit_tokens == 0
    assert outcome(desk.serve(range(50, 70), "b")).hit_tokens > 0


def test_who_runs_during_a_purge_leaves_nothing_behind() -> None:
    desk = Desk()
    answer = desk.answer(PROMPT, "a")
    assert desk.start(answer)
    assert desk.step(answer, 10)
    desk.kv.purge("a")
    desk.check()
    assert desk.step(answer)
    desk.finish(answer)
    assert desk.kv.usage().blocks_cached == 0


def test_a_tenant_without_blocks_is_forgotten() -> None:
    desk = Desk(blocks=5)
    for salt in range(50):
        desk.serve(PROMPT, str(salt))
    assert len(desk.kv._cached.trees) <= 5


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 30)), max_size=25))
def test_no_block_is_ever_seen_by_two_tenants(served: list[tuple[str, int, int]]) -> None:
    """Whatever is served in whatever order: who alone gets a hit of h tokens gets the same beside another."""
    together, alone = Desk(blocks=64), {salt: Desk(blocks=64) for salt in "ab"}
    owner: dict[int, str] = {}
    for salt, shared, length in served:
        prompt = [*range(shared), *range(100, 100 + length)]
        answer = together.answer(prompt, salt)
        assert together.start(answer)
        assert answer.num_computed == alone[salt].hit(prompt, salt)
        cached = answer.tables[0][: answer.num_computed // 4]
        assert all(owner[block] == salt for block in cached)
        owner.update(dict.fromkeys(answer.tables[0], salt))
        assert together.step(answer)
        together.finish(answer)
