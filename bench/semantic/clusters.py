"""Cluster sets: some questions are stored, the others asked; right, wrong and null hits as curves.

A hit is right when both questions are of one cluster, wrong when they are not, and null when the asked one belongs
to no cluster. An intent is coarser than an answer, so right hits are an upper bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.semantic.pairs import HALF_LIFE_S, served
from bench.semantic.sets import Labelled
from policies.budget import Pool
from policies.keys import Namespace
from policies.nomination import Ask
from policies.questions import Place, place
from policies.semantic import Least
from semantic.rehearsal import Rehearsal

_PROBABILITIES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)
_COSINES = (0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.92, 0.94, 0.96, 0.98)
_LIMIT = 4


def run_clusters(rehearsal: Rehearsal, rows: Sequence[Labelled], least: float) -> dict[str, Any]:
    """Shares of the asked questions: at the setting, and as curves of the layer and of a plain threshold."""
    cached = [row for row in rows if row.cached]
    asked = [row for row in rows if not row.cached]
    judge = rehearsal.judging()
    for number, row in enumerate(cached):
        judge.put(number + 1, "tenant", _where(row))
    found = []
    for row in asked:
        where = _where(row)
        found.append(judge.nominate(Ask(where.partition, where.family, where.question, _LIMIT)).candidates)
    pool = Pool(HALF_LIFE_S)
    layer = []
    for probability in sorted({*_PROBABILITIES, least}):
        answers = [served(candidates, Least(probability, probability), pool) for candidates in found]
        layer.append(
            {"least": probability, **_counts([None if a is None else cached[a.row - 1] for a in answers], asked)}
        )
    plain = _plain(rehearsal, cached, asked)
    setting = next(point for point in layer if point["least"] == least)
    return {
        "rows": len(rows),
        "cached_rows": len(cached),
        "asked_rows": len(asked),
        **{name: value for name, value in setting.items() if name != "least"},
        "curve": layer,
        "plain_minilm": plain,
        "better_at_every_point": _dominates(layer, plain),
    }


def _plain(rehearsal: Rehearsal, cached: Sequence[Labelled], asked: Sequence[Labelled]) -> list[dict[str, float]]:
    """The nearest stored question of the same bot, served from a cosine on."""
    stored, wanted = (rehearsal.embed([row.text for row in some]) for some in (cached, asked))
    alike = wanted @ stored.T
    groups = np.array([row.group for row in cached])
    alike[np.array([row.group for row in asked])[:, None] != groups[None, :]] = -1.0
    nearest = alike.argmax(axis=1)
    points = []
    for cosine in _COSINES:
        answers = [
            cached[at] if alike[number, at] >= cosine else None for number, at in enumerate(nearest.tolist())
        ]
        points.append({"least": cosine, **_counts(answers, asked)})
    return points


def _counts(answers: Sequence[Labelled | None], asked: Sequence[Labelled]) -> dict[str, float]:
    right = wrong = null = 0
    for answer, row in zip(answers, asked, strict=True):
        if answer is None:
            continue
        null += row.cluster is None
        right += row.cluster is not None and answer.cluster == row.cluster
        wrong += row.cluster is not None and answer.cluster != row.cluster
    return {
        name: round(count / len(asked), 4) for name, count in (("right", right), ("wrong", wrong), ("null", null))
    }


def _dominates(layer: Sequence[Mapping[str, float]], plain: Sequence[Mapping[str, float]]) -> bool:
    """Whether to each point of the plain threshold the layer has one with as many right and no more false hits."""
    return all(any(_beats(ours, theirs) for ours in layer) for theirs in plain)


def _beats(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    false, their_false = ours["wrong"] + ours["null"], theirs["wrong"] + theirs["null"]
    return ours["right"] >= theirs["right"] and false <= their_false


def _where(row: Labelled) -> Place:
    where = place(
        {"messages": [{"role": "user", "content": row.text}]}, Namespace("tenant", "chat", f"bench/{row.group}")
    )
    assert isinstance(where, Place), where
    return where
