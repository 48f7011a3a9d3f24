"""What share of conversations is served, per kind, and how fast.

`python -m bench.conversations --data DIR --model FOLDER --json`, with DIR laid out as the public data;
`semantic/fow_conversations.jsonl.gz` in it is read. Each `a` is stored, then its `b` is asked: first with only
this `a` stored, then with all, where the four nearest are judged and the likeliest is served. An answer of
another row's `a` that is served counts as wrong.
"""

import argparse
import contextlib
import gzip
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.data import require
from policies.questions import Question
from semantic.conversations import Conversations, build_conversations
from semantic.embedders.shared import SharedEmbedder
from semantic.embedders.table import load_embedder
from semantic.lexicon import load_lexicon

_FILE = "semantic/fow_conversations.jsonl.gz"
_NEAREST = 4


class Row(msgspec.Struct, frozen=True):
    """A stored and an asked conversation, and whether they share an answer."""

    kind: str
    stored: Question
    asked: Question
    same: bool


class Served(msgspec.Struct):
    """Rows of one kind, how many were served at the threshold, and by what the others were vetoed."""

    rows: int = 0
    served: int = 0
    vetoes: dict[str, int] = {}


def rows_of(file: Path) -> list[Row]:
    """The pairs of the file; those whose label is doubtful are left out."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return [
        Row(row["kind"], _question(row["a"]), _question(row["b"]), row["same_answer"])
        for row in read
        if not row["ambiguous"]
    ]


def _question(messages: Sequence[dict[str, str]]) -> Question:
    return Question(tuple((message["role"], message["content"]) for message in messages))


def alone(rows: Sequence[Row], judge: Conversations, least: float) -> tuple[dict[str, Served], list[float]]:
    """Each pair by itself: what is served, and milliseconds per decision."""
    table: dict[str, Served] = defaultdict(lambda: Served(vetoes={}))
    spent_ms = []
    for row in rows:
        started = time.perf_counter()
        veto, probability = judge.judge(row.stored, row.asked)
        spent_ms.append(1000 * (time.perf_counter() - started))
        kind = table[row.kind]
        kind.rows += 1
        kind.served += veto is None and probability >= least
        if veto is not None:
            kind.vetoes[veto] = kind.vetoes.get(veto, 0) + 1
    return dict(table), spent_ms


def crowded(
    rows: Sequence[Row], judge: Conversations, embedder: SharedEmbedder, least: float
) -> tuple[dict[str, Served], int, list[float]]:
    """Every `a` stored: what is served per kind, how often another row's answer, and milliseconds per decision."""
    stored = embedder.embed([judge.nomination_text(row.stored) for row in rows])
    table: dict[str, Served] = defaultdict(lambda: Served(vetoes={}))
    wrong, spent_ms = 0, []
    for row in rows:
        started = time.perf_counter()
        vector = embedder.embed([judge.nomination_text(row.asked)])[0]
        nearest = np.argsort(-(stored @ vector))[:_NEAREST].tolist()
        verdicts = judge.judge_all(row.asked, [rows[place].stored for place in nearest])
        spent_ms.append(1000 * (time.perf_counter() - started))
        probability, place = max((p, place) for (_, p), place in zip(verdicts, nearest, strict=True))
        table[row.kind].rows += 1
        if probability >= least and rows[place].stored != row.stored:
            wrong += 1
        elif probability >= least:
            table[row.kind].served += 1
    return dict(table), wrong, spent_ms


def measure(data: Path, model: Path, least: float, threads: int) -> dict[str, object]:
    """All figures."""
    rows = rows_of(data / _FILE)
    embedder, lexicon = load_embedder(model, "onnx", threads), load_lexicon()
    with contextlib.closing(SharedEmbedder(embedder)) as shared:
        one, one_ms = alone(rows, build_conversations(shared, lexicon), least)
    with contextlib.closing(SharedEmbedder(embedder)) as shared:  # a cache of its own, so that nothing is known
        all_, wrong, all_ms = crowded(rows, build_conversations(shared, lexicon), shared, least)
    return {
        "rows": len(rows),
        "least": least,
        "one_loaded": {"kinds": one, **shares(rows, one), **latency(one_ms)},
        "all_loaded": {"kinds": all_, "of_another_row": wrong, **shares(rows, all_), **latency(all_ms)},
    }


def shares(rows: Sequence[Row], table: dict[str, Served]) -> dict[str, float]:
    """Served shares of should-hits and of traps."""
    right = {row.kind for row in rows if row.same}
    found = {}
    for name, kinds in (("served_same", right), ("served_traps", set(table) - right)):
        found[name] = sum(table[kind].served for kind in kinds) / max(1, sum(table[kind].rows for kind in kinds))
    return found


def latency(spent_ms: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    return {f"p{share}_ms": round(float(np.percentile(spent_ms, share)), 1) for share in (50, 99)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of the embedder")
    parser.add_argument("--least", type=float, default=0.3, help="probability from which an answer is served")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    require(parser, arguments.data, (_FILE,))
    result = measure(arguments.data, arguments.model, arguments.least, arguments.threads)
    text = msgspec.json.encode(result)
    print((text if arguments.json else msgspec.json.format(text)).decode())


if __name__ == "__main__":
    main()
