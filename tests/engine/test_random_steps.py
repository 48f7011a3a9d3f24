"""A short seeded run of `tests.engine.random_steps`; the long one is a command."""

import logging
from collections.abc import Iterator

import pytest

from engine.kv.contract import KvGroup
from tests.engine.random_steps import World

FULL = KvGroup((0,))
WINDOW = KvGroup((1, 2), window=11)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Steps that fail on purpose are logged."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("any_chunks", "groups", "host_kv_mb"),
    [(True, (FULL,), 0), (False, (FULL,), 1), (True, (FULL, WINDOW), 1), (False, (FULL, WINDOW), 0)],
)
def test_anything_at_any_time(any_chunks: bool, groups: tuple[KvGroup, ...], host_kv_mb: int) -> None:
    world = World(7, any_chunks, groups, host_kv_mb)
    while world.happened["step"] < 250:
        world.turn()
    world.finish()
    seen = {name for name, count in world.happened.items() if count}
    assert seen >= {"fork", "abort", "failed step", "stop", "length"}
    assert seen & {"recompute", "swap"}
