"""Trains the guards' models and prints cross-validated figures: `python -m training.guards --data DIR [NAME ...]`.

DIR is laid out as the project's public evaluation data. Each model is judged on rows whose group it did not
see; the threshold comes from the same out-of-fold scores, then the model is trained on all rows, rounded to bytes
and written.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from policies.guardrails.linear import Field
from training import guard_data
from training.linear import (
    Flags,
    Floats,
    Recipe,
    Row,
    at_best_f1,
    at_false_alarms,
    at_recall,
    average_precision,
    fit,
    matrix,
    out_of_fold,
    rounded,
)

_OUT = Path(__file__).resolve().parent.parent / "policies" / "guardrails" / "data"
_SEED = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How one guard's model is made.

    Attributes:
        recipe: fields and strength.
        rows: reads them.
        threshold: from scores and labels.
        heeds_written: whether written rows have a say in the threshold too.
    """

    recipe: Recipe
    rows: Callable[[Path], list[Row]]
    threshold: Callable[[Floats, Flags], float]
    heeds_written: bool = False


def plans() -> dict[str, Plan]:
    """All models; thresholds say what matters most for each."""
    letters = (3, 5)
    question = Field("question", 3, letters, head=40, tail=40)
    answer = (Field("answer", 2, letters, head=100, tail=30), Field("question", 2, letters, 40, 20, 0.7))
    return {
        "time_bound": Plan(Recipe("time_bound", (question,), l2=0.05), guard_data.time_bound, at_best_f1),
        "refusal": Plan(
            Recipe("refusal", answer, l2=0.3), guard_data.refusal, lambda s, y: at_recall(s, y, 0.985)
        ),
        "toxicity": Plan(
            Recipe("toxicity", (Field("text", 2, letters, 300, 100),), l2=0.2),
            guard_data.toxicity,
            lambda s, y: at_false_alarms(s, y, 0.05),
        ),
        "injection": Plan(
            Recipe("injection", (Field("text", 2, letters, 150, 50),), l2=0.3),
            guard_data.injection,
            at_best_f1,
            heeds_written=True,
        ),
        "personal": Plan(
            Recipe("personal", (Field("question", 3, letters, 40, 40),), l2=0.1), guard_data.personal, at_best_f1
        ),
    }


def figures(scores: Floats, alarm: Flags, threshold: float) -> dict[str, Any]:
    """Recall, false alarms, precision, F1 and average precision at a threshold."""
    said = scores >= threshold
    right = int((said & alarm).sum())
    precision, recall = right / max(1, int(said.sum())), right / max(1, int(alarm.sum()))
    return {
        "rows": len(alarm),
        "alarms": int(alarm.sum()),
        "recall": round(recall, 4),
        "false_alarms": round(float((said & ~alarm).sum() / max(1, (~alarm).sum())), 4),
        "precision": round(precision, 4),
        "f1": round(2 * precision * recall / max(1e-9, precision + recall), 4),
        "average_precision": round(average_precision(scores, alarm), 4),
    }


def train(name: str, plan: Plan, data: Path, out: Path) -> dict[str, Any]:
    """Judges, trains and writes one model; the figures are of rows that the judged model had not seen."""
    rows = plan.rows(data)
    scores = out_of_fold(plan.recipe, rows, seed=_SEED)
    public, alarm = _flags(rows, "judged"), _flags(rows, "alarm")
    heeded = public | plan.heeds_written
    threshold = plan.threshold(scores[heeded], alarm[heeded])
    learnt = [row for row in rows if not row.ruled_out]
    weights, bias = fit(plan.recipe, matrix(plan.recipe, learnt), learnt)
    model = rounded(plan.recipe, weights, bias, threshold)
    (out / f"{name}.bin").write_bytes(msgspec.msgpack.encode(model))
    said = {"public": figures(scores[public], alarm[public], threshold), "threshold": round(threshold, 4)}
    if not public.all():
        said["written"] = figures(scores[~public], alarm[~public], threshold)
    return said


def _flags(rows: Sequence[Row], name: str) -> Flags:
    return np.array([getattr(row, name) for row in rows], dtype=np.bool_)


def main() -> None:
    """Trains the models named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("names", nargs="*", choices=[[], *plans()])
    asked = parser.parse_args()
    torch.manual_seed(_SEED)
    torch.set_num_threads(1)
    for name, plan in plans().items():
        if not asked.names or name in asked.names:
            print(json.dumps({name: train(name, plan, asked.data, asked.out)}), flush=True)


if __name__ == "__main__":
    main()
