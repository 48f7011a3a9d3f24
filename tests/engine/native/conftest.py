"""The compiled kernels, built once; without a compiler or AVX2 these tests are skipped and say why."""

import pytest

from engine.native.build import BuildError, build
from engine.native.library import Library
from engine.native.support import machine_gap


@pytest.fixture(scope="session")
def library() -> Library:
    gap = machine_gap()
    if gap is not None:
        pytest.skip(gap)
    try:
        return Library(build())
    except BuildError as error:
        pytest.skip(str(error))
