"""The labelled sets: pairs of questions or conversations, and clusters of questions."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import read_rows

PAIR_SETS: Mapping[str, str] = {
    "fow_pairs": "fow_pairs.jsonl",
    "fow_conversations": "fow_conversations.jsonl.gz",
    "svamp": "svamp_number_traps.jsonl",
    "gsmplus": "gsmplus_pairs.jsonl.gz",
    "situatedqa_dates": "situatedqa_date_pairs.jsonl.gz",
    "xstest": "xstest_pairs.jsonl",
    "boolq_contrast": "boolq_contrast_pairs.jsonl",
}
"""Name → file in `semantic/`."""

CLUSTER_SETS: Mapping[str, str] = {
    "hint3": "hint3_faq_clusters.jsonl.gz",
    "banking77": "banking77_clusters.jsonl.gz",
    "clinc150": "clinc150_clusters.jsonl.gz",
    "covidq": "covidq_clusters.jsonl",
}

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A cached side, an asked side, each as messages, and whether the cached answer may be served.

    Attributes:
        kinds: groups that the row is counted in besides its set.
    """

    id: str
    a: Sequence[Mapping[str, str]]
    b: Sequence[Mapping[str, str]]
    same: bool
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question and its cluster; None belongs to none. `cached` says whether it is stored or asked."""

    text: str
    cluster: str | None
    group: str
    cached: bool


def read_pairs(data: Path, name: str) -> list[LabelledPair]:
    """The rows of a pair set whose label is known."""
    rows = read_rows(data / "semantic" / PAIR_SETS[name])
    return [_pair(row) for row in rows if row["same_answer"] is not None]


def _pair(row: Mapping[str, Any]) -> LabelledPair:
    kinds = [str(row.get("kind", "all"))]
    if row.get("length"):
        kinds.append(f"{row['kind']}/{row['length']}")
    if row.get("ambiguous"):
        kinds.append("ambiguous")
    sides = [_messages(row[side]) for side in ("a", "b")]
    if isinstance(row["a"], str) and _numbers(row["a"]) != _numbers(row["b"]):
        kinds.append("numbers_differ")
    return LabelledPair(str(row["id"]), sides[0], sides[1], bool(row["same_answer"]), tuple(kinds))


def _messages(side: Any) -> list[Mapping[str, str]]:
    return [{"role": "user", "content": side}] if isinstance(side, str) else list(side)


def _numbers(text: str) -> Counter[str]:
    return Counter(found.replace(",", "").rstrip(".") for found in _NUMBER.findall(text))


def read_clusters(data: Path, name: str) -> list[Labelled]:
    """The rows of a cluster set: hint3 as its authors split it, others by every second row of a cluster."""
    return list(_clusters(read_rows(data / "semantic" / CLUSTER_SETS[name])))


def _clusters(rows: Sequence[Mapping[str, Any]]) -> Iterator[Labelled]:
    seen: Counter[str | None] = Counter()
    for row in rows:
        cluster = row["cluster"]
        seen[cluster] += 1
        cached = row["source_split"] == "train" if "source_split" in row else seen[cluster] % 2 == 1
        yield Labelled(row["text"], cluster, str(row.get("bot", "all")), cached and cluster is not None)
