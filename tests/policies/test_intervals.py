import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.intervals import ONE_SIDED_95, TWO_SIDED_95, trials_for, wilson


def test_known_values() -> None:
    """Wilson's interval of 10 in 100 as tables have it."""
    low, high = wilson(0.1, 100)
    assert low == pytest.approx(0.0552, abs=1e-4)
    assert high == pytest.approx(0.1744, abs=1e-4)


def test_nothing_seen_says_nothing() -> None:
    assert wilson(0.0, 0) == (0.0, 1.0)


@given(
    share=st.floats(0, 1),
    trials=st.floats(1e-3, 1e6),
    z=st.sampled_from([ONE_SIDED_95, TWO_SIDED_95]),
)
def test_an_interval_holds_its_share(share: float, trials: float, z: float) -> None:
    low, high = wilson(share, trials, z)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1


@given(share=st.floats(1e-4, 0.999))
def test_clean_trials_needed(share: float) -> None:
    assert wilson(0.0, trials_for(share)).high == pytest.approx(share)
