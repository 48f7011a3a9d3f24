"""Trains the guards' linear models: logistic regression, cross-validated by groups, weights rounded to bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from policies.guardrails.linear import Field, LinearModel, buckets

RULED_OUT = -99.0
"""Score of what no model is asked about."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        texts: fields and their text.
        tokens: what the guard adds itself.
        alarm: the label.
        group: rows of one group stay on one side of a split.
        weight: how much it counts in training.
        judged: whether figures count it; generated rows only teach.
        ruled_out: the guard lets it pass before it asks the model.
    """

    texts: dict[str, str]
    tokens: tuple[str, ...]
    alarm: bool
    group: str
    weight: float = 1.0
    judged: bool = True
    ruled_out: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is trained, and how strongly weights are held down (`l2`)."""

    name: str
    fields: tuple[Field, ...]
    bits: int = 16
    l2: float = 1.0
    balanced: bool = True


def folds(rows: Sequence[Row], count: int, seed: int) -> NDArray[np.int64]:
    """A fold for each row, groups whole."""
    groups = sorted({row.group for row in rows})
    order = np.random.default_rng(seed).permutation(len(groups))
    place = {groups[group]: position % count for position, group in enumerate(order)}
    return np.array([place[row.group] for row in rows])


def matrix(recipe: Recipe, rows: Sequence[Row]) -> torch.Tensor:
    """Features of all rows, sparse [rows, 2^bits]."""
    where: list[tuple[int, int]] = []
    what: list[float] = []
    for number, row in enumerate(rows):
        for found, value in buckets(recipe.fields, recipe.bits, row.texts, row.tokens):
            where += [(number, bucket) for bucket in sorted(found)]
            what += [value] * len(found)
    size = (len(rows), 1 << recipe.bits)
    indices = torch.tensor(where, dtype=torch.int64).T
    return torch.sparse_coo_tensor(indices, torch.tensor(what), size, check_invariants=False).coalesce()


def fit(recipe: Recipe, features: torch.Tensor, rows: Sequence[Row], steps: int = 60) -> tuple[Floats, float]:
    """Weights and bias that make the labels likeliest."""
    labels = torch.tensor([float(row.alarm) for row in rows])
    weight = torch.tensor([row.weight for row in rows])
    if recipe.balanced:
        share = float((weight * labels).sum() / weight.sum())
        weight = weight * torch.where(labels > 0, 0.5 / share, 0.5 / (1 - share))
    weights = torch.zeros(features.shape[1], 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=steps, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        logits = torch.sparse.mm(features, weights).squeeze(1) + bias
        error = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, weight, reduction="sum")
        total = error + recipe.l2 * weights.square().sum() / 2
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach().squeeze(1).double().numpy(), float(bias.detach())


def rounded(recipe: Recipe, weights: Floats, bias: float, threshold: float) -> LinearModel:
    """The model as it is stored."""
    scale = max(float(np.abs(weights).max()) / 127, 1e-9)
    table = np.rint(weights / scale).astype(np.int8).tobytes()
    return LinearModel(recipe.name, recipe.fields, recipe.bits, table, scale, bias, threshold)


def out_of_fold(recipe: Recipe, rows: Sequence[Row], count: int = 5, seed: int = 1) -> Floats:
    """The score of each row by a model that saw no row of its group."""
    features = matrix(recipe, rows)
    fold = folds(rows, count, seed)
    scores = np.full(len(rows), RULED_OUT)
    asked = np.array([not row.ruled_out for row in rows])
    for number in range(count):
        teach, judge = np.flatnonzero(asked & (fold != number)), np.flatnonzero(asked & (fold == number))
        learnt = [rows[index] for index in teach.tolist()]
        part = features.index_select(0, torch.from_numpy(teach))
        weights, bias = fit(recipe, part, learnt)
        model = rounded(recipe, weights, bias, 0.0)
        for index in judge.tolist():
            scores[index] = model.score(rows[index].texts, rows[index].tokens)
    return scores


def at_recall(scores: Floats, alarm: Flags, recall: float) -> float:
    """The highest threshold that finds this share of the alarms."""
    found = np.sort(scores[alarm])
    return float(found[int(np.floor((1 - recall) * len(found)))])


def at_best_f1(scores: Floats, alarm: Flags) -> float:
    """The threshold with the highest F1."""
    order = np.argsort(-scores)
    hits = np.cumsum(alarm[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + alarm.sum())
    return float(scores[order[int(np.argmax(f1))]])


def at_false_alarms(scores: Floats, alarm: Flags, share: float) -> float:
    """The lowest threshold with at most this share of false alarms."""
    quiet = np.sort(scores[~alarm])[::-1]
    return float(np.nextafter(quiet[int(np.floor(share * len(quiet)))], np.inf))


def average_precision(scores: Floats, alarm: Flags) -> float:
    """Area under precision over recall."""
    order = np.argsort(-scores, kind="stable")
    flags = alarm[order]
    precision = np.cumsum(flags) / np.arange(1, len(flags) + 1)
    return float((precision * flags).sum() / max(1, flags.sum()))
