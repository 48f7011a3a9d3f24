"""A semantic service over vectors that were never texts: clustered as sentences are, a million in seconds.

Run as a process of its own by `bench.semantic_service`.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from policies.questions import Question
from semantic.app import App
from semantic.index.index import Entry, Index
from semantic.index.keeper import Keeper
from semantic.index.snapshot import Origin
from semantic.metrics import Metrics
from semantic.options import Options
from semantic.server import listening, serve
from semantic.wiring import Service, load_models

FAMILY = hashlib.sha256(b"bench family").digest()
PARTITION = hashlib.sha256(b"bench partition").digest()
_CENTRES = 1000
_SPREAD = 0.45
"""Length of what is added to a centre: rows of one cluster then have a cosine of about 0.83."""
_PAGE = 20_000
_SUBJECTS = ("password", "invoice", "parcel", "flight", "router", "garden", "oven", "contract", "puppy", "guitar")
_ACTIONS = ("reset", "find", "return", "book", "repair", "plant", "clean", "cancel", "train", "tune")
_PLACES = (
    "at home",
    "in the office",
    "on the phone",
    "abroad",
    "at night",
    "for a friend",
    "as a student",
    "online",
)


def text_of(number: int) -> str:
    """A question of about ten words; neighbours in number are unlike."""
    subject, action = _SUBJECTS[number % 10], _ACTIONS[number // 10 % 10]
    return f"How do I {action} the {subject} {_PLACES[number // 100 % 8]} with option {number // 800}?"


def clustered(centres: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
    """Pages of unit vectors around the centres."""
    draw = np.random.default_rng(seed)
    for start in range(0, count, _PAGE):
        size = min(_PAGE, count - start)
        vectors = centres[draw.integers(0, len(centres), size)]
        noise = draw.standard_normal(vectors.shape, np.float32)
        vectors = vectors + noise * (_SPREAD / np.sqrt(vectors.shape[1]))
        yield np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def fill(index: Index, centres: np.ndarray, count: int, threads: int) -> tuple[float, float]:
    """Puts rows into one partition; returns the seconds for that and for rebuilding it as it then should be."""
    began, row = time.perf_counter(), 0
    for vectors in clustered(centres, count, 1):
        entries = [
            Entry(row + at, (row + at, 0.0), "t", FAMILY, PARTITION, vector) for at, vector in enumerate(vectors)
        ]
        index.put(entries)
        row += len(entries)
    filled = time.perf_counter()
    Keeper(index, None, Origin("", 0, ""), lambda: 0, threads=threads).rebuild_due()
    return filled - began, time.perf_counter() - filled


class Invented:
    """Tells for each row a text that was never embedded; rules and verifier take it as any other."""

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """A question per row."""
        return {row: Question((("user", text_of(row)),)) for row in rows}


def main() -> None:
    """Fills an index and serves it until a signal comes; says when it is ready."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    options, metrics = Options(socket=given.socket, threads=given.threads), Metrics()
    models = load_models(options, metrics)
    service = Service(options, models, metrics, Invented())
    centres = models.embedder.embed([text_of(7 * number) for number in range(_CENTRES)], timeout_s=600)
    spent = fill(service.index, centres, given.entries, given.threads)
    sys.setswitchinterval(0.0005)
    with listening(options) as listener:
        print(f"{spent[0]:.3f} {spent[1]:.3f}", flush=True)
        serve(App(service, None), listener, 1.0)


if __name__ == "__main__":
    main()
