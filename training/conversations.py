"""Trains what weighs two conversations and writes `semantic/weights/conversations.json`.

`training/data/conversations.jsonl` holds families written by hand: a conversation, variants with the same answer,
and traps. Exchanges of other families are put into both sides or into one, so that length teaches nothing. The
figures that are printed come from weights that saw no pair of the family; those that are written saw all.

Run `python -m training.conversations --model FOLDER`.
"""

import argparse
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from policies.conversations import Told, Weights, Wording, late_verdict, read_turns, unneeded
from policies.conversations.align import Likeness, align
from policies.conversations.context import context_signals, same_turn
from policies.conversations.forest import Tree
from policies.vetoes import Lexicon
from semantic.conversations import load_wording
from semantic.embedders.table import load_embedder
from semantic.lexicon import load_lexicon

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "training" / "data" / "conversations.jsonl"
WEIGHTS = ROOT / "semantic" / "weights" / "conversations.json"
_ROLES = {"u": "user", "a": "assistant"}
_FOLDS = 5
_SEED = 5

Conversation = tuple[Told, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A conversation, its variants with the same answer (itself among them), and traps; each with its kind."""

    same: list[tuple[str, Conversation]]
    traps: list[tuple[str, Conversation]]


@dataclass(frozen=True, slots=True)
class Row:
    """A pair of conversations of a family; `made` when exchanges of other families were put in."""

    family: int
    kind: str
    same: bool
    stored: Conversation
    asked: Conversation
    made: bool = False


def read_families(file: Path, wording: Wording, lexicon: Lexicon) -> list[Family]:
    """The families of a file."""

    def told(messages: list[list[str]]) -> Conversation:
        return read_turns([(_ROLES[role], text) for role, text in messages], wording, lexicon)

    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [
        Family(
            [("base", told(row["base"])), *((one["kind"], told(one["messages"])) for one in row["same"])],
            [(one["kind"], told(one["messages"])) for one in row["traps"]],
        )
        for row in rows
    ]


def rows_of(families: Sequence[Family]) -> Iterator[Row]:
    """Every ordered pair of a family, and two more of each with other families' exchanges."""
    draw = random.Random(_SEED)
    for number, family in enumerate(families):
        for row in _pairs(number, family):
            yield row
            if "irrelevant" not in row.kind:
                yield from (_lengthened(row, families, draw) for _ in range(2))
        for _, conversation in family.same:
            yield from _detours(number, family, conversation, families, draw)


def _pairs(number: int, family: Family) -> Iterator[Row]:
    for (one, stored), (other, asked) in itertools.permutations(family.same, 2):
        yield Row(number, f"{one} {other}", True, stored, asked)
    for (_, stored), (kind, asked) in itertools.product(family.same, family.traps):
        yield Row(number, kind, False, stored, asked)
        yield Row(number, kind, False, asked, stored)


def _exchanges(number: int, families: Sequence[Family], draw: random.Random, count: int) -> Conversation:
    """First questions of other families and their answers."""
    others = [family.same[0][1][:2] for place, family in enumerate(families) if place != number]
    asking = [exchange for exchange in others if exchange[0].asks]
    return tuple(told for exchange in draw.sample(asking, count) for told in exchange)


def _spot(conversation: Conversation, share: float) -> int:
    """A place before an exchange; never after the last reply."""
    return 2 * int(share * max(1, (len(conversation) - 1) // 2))


def _with(conversation: Conversation, exchanges: Conversation, place: int) -> Conversation:
    return (*conversation[:place], *exchanges, *conversation[place:])


def _lengthened(row: Row, families: Sequence[Family], draw: random.Random) -> Row:
    stored, asked = row.stored, row.asked
    if draw.random() < 0.6:
        exchanges, share = _exchanges(row.family, families, draw, draw.choice([1, 2, 4, 8, 12, 16])), draw.random()
        stored = _with(stored, exchanges, _spot(stored, share))
        asked = _with(asked, exchanges, _spot(asked, share))
    if draw.random() < 0.6:
        exchanges = _exchanges(row.family, families, draw, draw.choice([1, 1, 2, 3, 4, 5, 6]))
        if draw.random() < 0.5:
            stored = _with(stored, exchanges, _spot(stored, draw.random()))
        else:
            asked = _with(asked, exchanges, _spot(asked, draw.random()))
    return Row(row.family, row.kind, row.same, stored, asked, made=True)


def _detours(
    number: int, family: Family, conversation: Conversation, families: Sequence[Family], draw: random.Random
) -> Iterator[Row]:
    """The conversation beside itself with a detour, and with what makes a trap of it put in between."""
    for count in (1, 2, 5):
        exchanges = _exchanges(number, families, draw, count)
        longer = _with(conversation, exchanges, _spot(conversation, draw.random()))
        yield Row(number, "detour", True, conversation, longer, made=True)
    known = {told.plain for told in conversation}
    for kind, trap in family.traps:
        said = [place for place in range(0, len(trap) - 1, 2) if trap[place].plain not in known]
        if kind != "context_swap" and said:
            exchange = trap[said[-1] : said[-1] + 2]
            longer = _with(conversation, exchange, _spot(conversation, 0.999))
            yield Row(number, f"{kind} put in", False, conversation, longer, made=True)


def signals_of(rows: Sequence[Row], likeness: Likeness, wording: Wording) -> tuple[list[str], np.ndarray]:
    """Names of the signals, and their values [rows, signals]."""
    found = []
    for row in rows:
        alignment = align(row.stored[:-1], row.asked[:-1], likeness)
        found.append(context_signals(row.stored, row.asked, alignment, likeness, wording))
    return list(found[0]), np.array([list(one.values()) for one in found])


def fit(names: Sequence[str], values: np.ndarray, labels: np.ndarray) -> Weights:
    """The forest of the rows, uncalibrated."""
    model = GradientBoostingClassifier(
        n_estimators=120, max_depth=3, learning_rate=0.08, subsample=0.5, max_features=12, min_samples_leaf=25,
        random_state=_SEED,
    )  # fmt: skip
    model.fit(values, labels)
    share = labels.mean()
    trees = tuple(_tree(one[0].tree_, model.learning_rate) for one in model.estimators_)
    return Weights(tuple(names), float(np.log(share / (1 - share))), trees, 1.0, 0.0, 0.9, 0.99)


def _tree(tree: object, rate: float) -> Tree:
    columns = {name: getattr(tree, name) for name in ("feature", "threshold", "children_left", "children_right")}
    values = getattr(tree, "value")[:, 0, 0] * rate  # noqa: B009  (scikit-learn's trees are untyped)
    return Tree(
        tuple(int(one) if one >= 0 else -1 for one in columns["feature"]),
        tuple(round(float(one), 6) for one in columns["threshold"]),
        tuple(int(one) for one in columns["children_left"]),
        tuple(int(one) for one in columns["children_right"]),
        tuple(round(float(one), 6) for one in values),
    )


def log_odds(weights: Weights, values: np.ndarray) -> np.ndarray:
    """The forest's log odds of each row."""
    return np.array([weights.log_odds(dict(zip(weights.names, row, strict=True))) for row in values.tolist()])


def calibrated(weights: Weights, odds: np.ndarray, labels: np.ndarray) -> Weights:
    """The weights with slope and offset that fit held-out log odds, both labels counting alike."""
    model = LogisticRegression(C=100.0, class_weight="balanced").fit(odds[:, None], labels)
    return msgspec.structs.replace(weights, slope=float(model.coef_[0, 0]), offset=float(model.intercept_[0]))


def alone_share(rows: Iterable[Row], wording: Wording) -> tuple[float, int]:
    """Share of equal answers, shrunk, among pairs whose equal last turns stand alone; and how many these are."""
    found = [
        row.same
        for row in rows
        if not row.made and same_turn(row.stored[-1], row.asked[-1]) and unneeded(row.stored, row.asked, wording)
    ]
    return (sum(found) + 1) / (len(found) + 2), len(found)


def report(rows: Sequence[Row], judged: Callable[[Row], float]) -> None:
    """Prints per kind the share that is served at several thresholds."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        kinds[f"{'same' if row.same else 'trap'} {row.kind}"].append(judged(row))
    for kind, scores in sorted(kinds.items()):
        shares = " ".join(f"{np.mean(np.array(scores) > least):6.3f}" for least in (0.5, 0.6, 0.7, 0.8, 0.9))
        print(f"{kind:32} {len(scores):5}  {shares}")


def main() -> None:
    """Learn, print the held-out figures, write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the embedder")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    arguments = parser.parse_args()
    wording, lexicon = load_wording(), load_lexicon()
    families = read_families(DATA, wording, lexicon)
    rows = [row for row in rows_of(families) if "irrelevant" not in row.kind]
    likeness = _likeness(rows, arguments.model)
    names, values = signals_of(rows, likeness, wording)
    labels = np.array([row.same for row in rows])
    folds = np.random.default_rng(_SEED).permutation(len(families)) % _FOLDS
    fold = np.array([folds[row.family] for row in rows])
    odds = np.zeros(len(rows))
    for number in range(_FOLDS):
        part = fit(names, values[fold != number], labels[fold != number])
        odds[fold == number] = log_odds(part, values[fold == number])
    weights = fit(names, values, labels)
    judged_by_forest = np.array(
        [
            not row.made and late_verdict(row.stored, row.asked, likeness, wording, weights).veto is None
            for row in rows
        ]
    )
    weights = calibrated(weights, odds[judged_by_forest], labels[judged_by_forest])
    alone, counted = alone_share(rows_of(families), wording)
    weights = msgspec.structs.replace(weights, alone=round(alone, 3))
    print(f"{len(families)} families, {len(rows)} pairs; alone {alone:.3f} of {counted}")
    held_out = {
        id(row): 1 / (1 + np.exp(-(weights.slope * value + weights.offset)))
        for row, value in zip(rows, odds, strict=True)
    }

    def judged(row: Row) -> float:
        verdict = late_verdict(row.stored, row.asked, likeness, wording, weights)
        return 0.0 if verdict.veto else float(held_out[id(row)])

    report([row for row in rows if not row.made], judged)
    report([row for row in rows if row.made], judged)
    arguments.out.write_bytes(msgspec.json.encode(weights) + b"\n")


def _likeness(rows: Sequence[Row], model: Path) -> Likeness:
    texts = sorted({told.text for row in rows for told in (*row.stored, *row.asked)})
    vectors = dict(zip(texts, load_embedder(model, "onnx", 1).embed(texts), strict=True))
    return lambda one, other: float(vectors[one] @ vectors[other])


if __name__ == "__main__":
    main()
