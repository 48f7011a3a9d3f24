"""How many blocks fit."""

import pytest

from engine.cuda.memory import blocks_that_fit
from engine.errors import EngineError


def test_groups_get_the_same_number_of_blocks() -> None:
    assert blocks_that_fit(10_000, 0.9, [600, 300]) == 10
    assert blocks_that_fit(10_000, 1.0, [1000]) == 10


def test_no_room_is_refused() -> None:
    with pytest.raises(EngineError, match="1000 bytes are free on the device"):
        blocks_that_fit(1000, 0.5, [600])
    with pytest.raises(EngineError, match="no room"):
        blocks_that_fit(-5, 0.5, [600])
