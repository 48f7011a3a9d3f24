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


@pytest.mark.parametrize("any_chunks", [True, False])
@pytest.mark.parametrize("groups", [(FULL,), (FULL, WINDOW)])
@pytest.mark.parametrize("host_kv_mb", [0, 1])
def test_anything_at_any_time(any_chunks: bool, groups: tuple[KvGroup, ...], host_kv_mb: int) -> None:
    world = World(7, any_chunks, groups, host_kv_mb)
    while world.happened["step"] < 300:
        world.turn()
    world.finish()
    assert (
        min(world.happened[name] for name in ("fork", "abort", "recompute", "failed step", "stop", "length")) > 0
    )
