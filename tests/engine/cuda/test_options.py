"""Which device an option means on which machine."""

import pytest

from engine.cuda.options import ATTENTION, DTYPES, DeviceOptions, resolved_device
from engine.errors import EngineError


@pytest.mark.parametrize(
    ("asked", "devices", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_a_device_is_found(asked: str, devices: int, expected: str) -> None:
    assert resolved_device(asked, devices) == expected


@pytest.mark.parametrize(
    ("asked", "devices", "message"),
    [
        ("cuda", 0, "device 'cuda' is not there: 0 CUDA devices are visible"),
        ("cuda:2", 2, "'cuda:2' is not there"),
        ("cuda:x", 1, "'cuda:x' is unknown; known: auto, cpu, cuda, cuda:N"),
        ("mps", 1, "'mps' is unknown"),
    ],
)
def test_a_device_that_is_not_there_is_refused(asked: str, devices: int, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        resolved_device(asked, devices)


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(EngineError, match="above 0 and at most 1"):
        DeviceOptions(kv_share=share)


def test_the_names_are_those_of_the_tables() -> None:
    pytest.importorskip("torch")
    from engine.cuda import attend, build

    assert set(DTYPES) == set(build.DTYPES)
    assert set(ATTENTION) == {"auto", "sdpa", *attend.CHUNKS}
