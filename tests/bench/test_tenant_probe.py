"""The probe's figure is the chance that a hit is faster than a miss."""

from bench.tenant_probe import auc


def test_auc_of_certain_hopeless_and_even_guesses() -> None:
    assert auc([1, 2], [3, 4]) == 1
    assert auc([3, 4], [1, 2]) == 0
    assert auc([1, 4], [1, 4]) == 0.5
