"""Why a prompt was not found."""

from tests.engine.kv.desk import Desk, outcome

PROMPT = list(range(20))


def miss(desk: Desk, tokens: list[int], salt: str = "") -> tuple[str | None, int | None]:
    found = outcome(desk.serve(tokens, salt))
    return found.miss, found.differs_at


def test_each_reason() -> None:
    desk = Desk(blocks=64)
    assert miss(desk, PROMPT) == ("cold", None)
    assert miss(desk, PROMPT) == (None, None)
    assert miss(desk, PROMPT[:3]) == ("short", None)
    assert miss(desk, [*PROMPT[:14], 99, *PROMPT[15:]]) == ("differs", 14)
    assert miss(desk, [*PROMPT[:12], 98, *PROMPT[13:]]) == ("differs", 12)
    assert miss(desk, [*PROMPT[:3], 97, *PROMPT[4:]]) == ("differs", 3)
    assert miss(desk, [96, *PROMPT[1:]]) == ("cold", None)
    assert miss(desk, [*PROMPT, 1, 2]) == (None, None)
    assert miss(desk, [*PROMPT, *range(50, 60)]) == ("cold", None)
    assert miss(desk, PROMPT, "other") == ("salt", None)
    assert miss(desk, PROMPT, "other") == (None, None)


def test_what_was_given_up_is_remembered_within_bounds() -> None:
    desk = Desk(blocks=5)
    desk.serve(PROMPT)
    desk.serve(range(100, 120))
    assert miss(desk, PROMPT) == ("evicted", None)
    for number in range(2, 40):
        desk.serve(range(number * 100, number * 100 + 20))
    assert len(desk.kv._cached.ghosts) == 20
    assert miss(desk, PROMPT)[0] == "cold"


def test_counts_by_reason() -> None:
    desk = Desk(blocks=64)
    for tokens in (PROMPT, PROMPT, PROMPT[:3]):
        desk.serve(tokens)
    assert desk.kv.usage().misses == {"none": 1, "cold": 1, "short": 1}
