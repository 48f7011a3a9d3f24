"""How often the vetoes speak, per set and kind, and what they cost: `python -m bench.vetoes --data DIR --json`.

DIR is laid out as the folder of public data; each pair file is read if it is there. `--families FILE…` adds files
with one family a line: `same`, a list of wordings with one answer, and `traps`, each with `kind` and `forms`.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec

from bench.data import read_rows
from policies.vetoes import Facts, Lexicon, compare, read
from semantic.lexicon import load_lexicon

SETS = (
    "semantic/fow_pairs.jsonl", "semantic/svamp_number_traps.jsonl", "semantic/gsmplus_pairs.jsonl.gz",
    "semantic/situatedqa_date_pairs.jsonl.gz", "semantic/xstest_pairs.jsonl",
    "semantic/boolq_contrast_pairs.jsonl",
    "train/advising_pairs.jsonl.gz", "train/ambignq_pairs.jsonl.gz", "train/breaking_nli_pairs.jsonl.gz",
    "train/condaqa_pairs.jsonl.gz", "train/disfl_qa_pairs.jsonl.gz", "train/negation_pairs.jsonl.gz",
    "train/sgd_request_pairs.jsonl.gz", "train/spider_syn_pairs.jsonl.gz", "train/timeqa_pairs.jsonl.gz",
)  # fmt: skip
CLUSTERS = ("semantic/banking77_clusters.jsonl.gz", "semantic/hint3_faq_clusters.jsonl.gz",
            "semantic/covidq_clusters.jsonl")  # fmt: skip
_TIMED = 400
_PER_CLUSTER = 6


class Pair(msgspec.Struct, frozen=True):
    """Two texts of a set and whether they share an answer."""

    kind: str
    stored: str
    asked: str
    same: bool | None


class Share(msgspec.Struct):
    """Rows of one kind, how many were vetoed, and by what."""

    rows: int = 0
    vetoed: int = 0
    by: dict[str, int] = {}


def pairs(file: Path) -> Iterator[Pair]:
    """The pairs of a pair file, with the label in the kind."""
    for row in read_rows(file):
        same = row["same_answer"]
        label = {True: "same", False: "different", None: "unknown"}[same]
        yield Pair(f"{label} {row['kind']}", row["a"], row["b"], same)


def cluster_pairs(file: Path) -> Iterator[Pair]:
    """Neighbouring texts of each cluster: the same intent, so mostly the same answer."""
    clusters: dict[object, list[str]] = defaultdict(list)
    for row in read_rows(file):
        if row["cluster"] is not None:
            clusters[row["cluster"]].append(str(row["text"]))
    for texts in clusters.values():
        yield from (Pair("same cluster", *two, same=None) for two in combinations(texts[:_PER_CLUSTER], 2))


def family_pairs(files: list[Path]) -> Iterator[Pair]:
    """All wordings of a family beside each other and beside its traps."""
    for file in files:
        for row in read_rows(file):
            same = row["same"]
            yield from (Pair("same", *two, same=True) for two in combinations(same, 2))
            for trap in row["traps"]:
                for form, stored in product(trap["forms"], same):
                    yield Pair(f"trap {trap['kind']}", stored, form, same=False)
                yield Pair(
                    f"nearest {trap['kind']}", _nearest(trap["forms"][0], same), trap["forms"][0], same=False
                )


def _nearest(form: str, same: list[str]) -> str:
    """The wording that shares most words with a trap: the one it was edited from."""
    words = set(form.lower().split())
    return max(
        same, key=lambda text: len(words & set(text.lower().split())) / len(words | set(text.lower().split()))
    )


def shares(found: Iterator[Pair], lexicon: Lexicon) -> dict[str, Share]:
    """Rows and vetoes per kind."""
    known: dict[str, Facts] = {}

    def facts(text: str) -> Facts:
        if text not in known:
            known[text] = read(text, lexicon)
        return known[text]

    table: dict[str, Share] = defaultdict(lambda: Share(by={}))
    for pair in found:
        share = table[pair.kind]
        share.rows += 1
        veto = compare(facts(pair.stored), facts(pair.asked))
        if veto:
            share.vetoed += 1
            share.by[veto] = share.by.get(veto, 0) + 1
    return dict(sorted(table.items()))


def costs(texts: list[str], lexicon: Lexicon) -> dict[str, float]:
    """Median microseconds of reading a text and of comparing two."""
    reads, compares, last = [], [], read(texts[-1], lexicon)
    for text in texts:
        started = time.perf_counter()
        facts = read(text, lexicon)
        done = time.perf_counter()
        compare(last, facts)
        compares.append(time.perf_counter() - done)
        reads.append(done - started)
        last = facts
    middle = len(texts) // 2
    return {
        "words_mean": round(sum(len(text.split()) for text in texts) / len(texts), 1),
        "read_p50_us": round(sorted(reads)[middle] * 1e6, 1),
        "compare_p50_us": round(sorted(compares)[middle] * 1e6, 1),
    }


def measure(data: Path, families: list[Path]) -> dict[str, Any]:
    """All sets that are there."""
    lexicon = load_lexicon()
    sets: dict[str, Iterator[Pair]] = {name: pairs(data / name) for name in SETS if (data / name).is_file()}
    sets |= {name: cluster_pairs(data / name) for name in CLUSTERS if (data / name).is_file()}
    if families:
        sets["families"] = family_pairs(families)
    read_sets = {name: list(found) for name, found in sets.items()}
    texts = [pair.stored for found in read_sets.values() for pair in found[:_TIMED] if len(pair.stored) < 150]
    return {
        "sets": {name: shares(iter(found), lexicon) for name, found in read_sets.items()},
        "costs": costs(texts, lexicon) if texts else {},
    }


def main() -> None:
    """Print the table or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--families", type=Path, nargs="*", default=[])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.data, arguments.families)
    if arguments.json:
        print(msgspec.json.encode(result).decode())
        return
    for name, kinds in result["sets"].items():
        print(name)
        for kind, share in kinds.items():
            by = " ".join(
                f"{veto}:{count}" for veto, count in sorted(share.by.items(), key=lambda item: -item[1])[:7]
            )
            print(f"  {kind:45} {share.vetoed:6}/{share.rows:<6} {share.vetoed / share.rows:6.1%}  {by}")
    print(result["costs"])


if __name__ == "__main__":
    main()
