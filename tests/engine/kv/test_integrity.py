"""The checker sees what it is there for: each book is spoilt by hand and must be called out."""

from collections.abc import Callable

import pytest

from engine.kv.contract import NULL_BLOCK, KvGroup
from engine.kv.wishes import Retention
from tests.engine.kv.desk import FULL, Answer, Desk, keep, small_host


def busy() -> tuple[Desk, Answer]:
    """One answer runs, 9 of 10 tokens computed; a pinned prompt is cached; the host has blocks."""
    desk = Desk(groups=(FULL, KvGroup((1,), window=6)), blocks=16, host=small_host(8, 2), retention=Retention())
    desk.serve(range(50, 90))
    desk.serve(range(12), breakpoints=keep(8))
    answer = desk.answer(range(10))
    assert desk.start(answer)
    assert desk.step(answer, 9)
    desk.kv.take_transfers()
    return desk, answer


def lose_reference(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.books[0].pool.let_go(answer.tables[0][0])


def free_twice(desk: Desk, answer: Answer) -> None:
    pool = desk.kv._cached.books[0].pool
    pool.put_back(pool.free_blocks()[0])


def lose_block(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.books[0].pool.take()


def miscount_evictable(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.books[1].evictable.count += 1


def miscount_pins(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.books[0].evictable.pinned += 1


def swap_owners(desk: Desk, answer: Answer) -> None:
    owners = desk.kv._cached.books[0].evictable.owners
    one, other, *_ = (block for block, node in enumerate(owners) if node is not None)
    owners[one], owners[other] = owners[other], owners[one]


def rename(desk: Desk, answer: Answer) -> None:
    node = desk.kv._cached.trees[""].first[0]
    node.tokens = b"\x09\0\0\0" * 4


def forget_children(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.trees[""].first[0].below[0] += 1


def lose_holder(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.trees[""].holders -= 1


def share_what_is_written(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.hold(0, answer.tables[0][2])
    desk.live.append(other := Answer(answer.seq_id + 1, answer.prompt_ids))
    other.tables = [[NULL_BLOCK, NULL_BLOCK, answer.tables[0][2]], [NULL_BLOCK] * 3]
    other.num_computed = 9
    desk.kv._holdings[other.seq_id] = desk.kv._holdings[answer.seq_id]
    desk.kv._cached.trees[""].holders += 1


def lose_sight(desk: Desk, answer: Answer) -> None:
    desk.kv._cached.books[1].pool.let_go(answer.tables[1][2])
    desk.kv._cached.books[1].pool.put_back(answer.tables[1][2])
    answer.tables[1][2] = NULL_BLOCK


def forget_answer(desk: Desk, answer: Answer) -> None:
    desk.live.clear()


def miscount_host(desk: Desk, answer: Answer) -> None:
    assert desk.host is not None
    desk.host.used_bytes += 1


def change_tokens(desk: Desk, answer: Answer) -> None:
    answer.prompt_ids = (*range(1, 5), *answer.prompt_ids[4:])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lose_reference, "references"),
        (free_twice, "twice"),
        (lose_block, "references"),
        (miscount_evictable, "evictable blocks"),
        (miscount_pins, "pinned"),
        (swap_owners, "know each other"),
        (rename, "another's digest"),
        (forget_children, "children with a block"),
        (lose_holder, "holders"),
        (share_what_is_written, "shared block"),
        (lose_sight, "that it sees"),
        (forget_answer, "sequences that hold"),
        (miscount_host, "bytes"),
        (change_tokens, "published as something else"),
    ],
)
def test_a_spoilt_book_is_called_out(spoil: Callable[[Desk, Answer], None], message: str) -> None:
    desk, answer = busy()
    desk.check()
    spoil(desk, answer)
    with pytest.raises(AssertionError, match=message):
        desk.check()
