"""Turning scores into log-odds, and figures of how well scores part two labels."""

import numpy as np

_STEPS = 50
_RIDGE = 1e-9


def calibration_of(features: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients and, last, offset that make the features log-odds (Platt 1999), by Newton's method.

    Args:
        features: [N, K].
        truth: bool [N].
        weights: [N], what each row counts.

    Raises:
        ValueError: they do not converge, as with labels that the features part without error.
    """
    known = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    found = np.zeros(known.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(known @ found, -30, 30)))
        gradient = known.T @ (weights * (chance - truth))
        second = (known * (weights * chance * (1 - chance))[:, None]).T @ known
        found = found - np.linalg.solve(second + _RIDGE * np.eye(len(found)), gradient)
    if not np.isfinite(found).all() or found[0] <= 0:
        raise ValueError("the calibration did not converge")
    return found


def figures_of(scores: np.ndarray, truth: np.ndarray, name: str) -> dict[str, float]:
    """Area under the curve, and the share of positives above the given share of negatives."""
    wrong = np.sort(scores[~truth])[::-1]
    order = np.argsort(np.argsort(scores))
    positives = int(truth.sum())
    area = (order[truth].sum() - positives * (positives - 1) / 2) / (positives * len(wrong))
    found = {f"{name}_auc": round(float(area), 4)}
    for share in (0.01, 0.05):
        found[f"{name}_hits_at_{share:.0%}_wrong"] = round(
            float((scores[truth] > wrong[int(share * len(wrong))]).mean()), 4
        )
    return found
