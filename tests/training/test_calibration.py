import numpy as np
import pytest

from training.calibration import calibration_of, figures_of


def test_the_calibration_finds_the_log_odds_that_made_the_labels() -> None:
    draw = np.random.default_rng(7)
    features = draw.normal(size=(40_000, 2))
    odds = features @ np.array([1.5, -0.7]) + 0.3
    truth = draw.random(len(odds)) < 1 / (1 + np.exp(-odds))
    found = calibration_of(features, truth, np.ones(len(truth)))
    assert found == pytest.approx([1.5, -0.7, 0.3], abs=0.06)


def test_scores_that_point_the_wrong_way_are_refused() -> None:
    features = np.array([[2.0], [1.0], [0.5], [-1.0], [-2.0], [0.4]])
    truth = np.array([False, False, True, True, True, False])
    with pytest.raises(ValueError, match="did not converge"):
        calibration_of(features, truth, np.ones(6))


def test_figures_count_positives_above_negatives() -> None:
    figures = figures_of(np.array([0.9, 0.8, 0.3, 0.7, 0.2]), np.array([True, True, True, False, False]), "x")
    assert figures == {"x_auc": 0.8333, "x_hits_at_1%_wrong": 0.6667, "x_hits_at_5%_wrong": 0.6667}
