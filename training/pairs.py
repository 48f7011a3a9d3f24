"""Pairs of questions to train and measure the verifier on.

`data/pairs.jsonl.gz` holds families written for Lamina: a domain, `same` (wordings that deserve one answer) and
`traps` (near misses by kind, in one or two forms each). From a family come many pairs: every two wordings are a
positive, every trap against every wording a negative.
"""

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FAMILIES = Path(__file__).parent / "data" / "pairs.jsonl.gz"
LONGEST_CHARS = 400


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions and whether they have one answer; `kind` says how the pair came about."""

    a: str
    b: str
    same: bool
    kind: str


@dataclass(frozen=True, slots=True)
class Family:
    """A question's wordings, its traps as (kind, forms), and a noisy repeat of each text."""

    same: tuple[str, ...]
    traps: tuple[tuple[str, tuple[str, ...]], ...]
    noisy: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> Iterator[str]:
        """Every text, noisy repeats too."""
        yield from self.same
        for _, forms in self.traps:
            yield from forms
        yield from self.noisy.values()


def read_families(path: Path, rng: random.Random) -> list[Family]:
    """Reads all families and makes their noisy repeats."""
    families: list[Family] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            traps = tuple((trap["kind"], tuple(trap["forms"])) for trap in raw["traps"])
            repeated = [*raw["same"], *(forms[0] for _, forms in traps)]
            noisy = {text: repeat_sloppily(text, rng) for text in repeated}
            families.append(Family(tuple(raw["same"]), traps, noisy))
    return families


def pairs_of(family: Family, others: Sequence[Family], rng: random.Random, negatives: int) -> list[Pair]:
    """A fresh sample of a family's pairs, sides in random order."""
    found = list(_positives(family, rng))
    traps = list(_negatives(family, rng))
    rng.shuffle(traps)
    found += traps[:negatives]
    found += [Pair(rng.choice(family.same), rng.choice(rng.choice(others).same), False, "far") for _ in range(2)]
    return [pair if rng.random() < 0.5 else Pair(pair.b, pair.a, pair.same, pair.kind) for pair in found]


def _positives(family: Family, rng: random.Random) -> Iterator[Pair]:
    same, noisy = family.same, family.noisy
    for place, one in enumerate(same):
        yield Pair(one, noisy[one], True, "repeat")
        for other in same[place + 1 :]:
            yield Pair(_maybe(one, noisy, rng, 0.33), _maybe(other, noisy, rng, 0.33), True, "wording")
    again = rng.choice(same)
    yield Pair(again, again, True, "repeat")
    for _, forms in family.traps:
        if len(forms) > 1:
            yield Pair(forms[0], forms[1], True, "wording")
        if rng.random() < 0.3:
            yield Pair(forms[0], noisy[forms[0]], True, "repeat")


def _negatives(family: Family, rng: random.Random) -> Iterator[Pair]:
    noisy = family.noisy
    for kind, forms in family.traps:
        for form in (*forms, noisy[forms[0]]):
            for one in family.same:
                yield Pair(form, _maybe(one, noisy, rng, 0.2), False, kind)
    for place, (_, forms) in enumerate(family.traps):
        for _, others in family.traps[place + 1 :]:
            yield Pair(rng.choice(forms), rng.choice(others), False, "other_trap")


def _maybe(text: str, noisy: Mapping[str, str], rng: random.Random, share: float) -> str:
    return noisy[text] if rng.random() < share else text


def read_public(data: Path, caps: Mapping[str, int], rng: random.Random) -> list[Pair]:
    """Up to so many labelled pairs of each public set in `data/train`; its README has sources and licences."""
    found: list[Pair] = []
    for name, cap in caps.items():
        with gzip.open(data / "train" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [row for row in map(json.loads, lines) if row.get("same_answer") is not None]
        rows = [row for row in rows if len(row["a"]) + len(row["b"]) < LONGEST_CHARS]
        rng.shuffle(rows)
        found += [Pair(row["a"], row["b"], bool(row["same_answer"]), name) for row in rows[:cap]]
    return found


_OPENINGS = (
    "Hi, ", "hello, ", "Hi there! ", "hey ", "Hiya, ", "Good morning. ", "um ", "ok so ", "Quick question: ",
    "Sorry to bother you, ", "Just wondering, ", "please can you tell me ", "Excuse me, ", "er ",
)  # fmt: skip
_CLOSINGS = (
    " Thanks!", " thanks", " please", " pls", " Thank you.", " cheers", " Thanks in advance",
    " ty", " lol", "??", "!",
)  # fmt: skip
_SHORTEST_TYPO = 5


def repeat_sloppily(text: str, rng: random.Random) -> str:
    """The same question as a hurried person types it: case, punctuation, a typo, a greeting, thanks."""
    if rng.random() < 0.45:
        text = text.lower()
    if rng.random() < 0.4:
        text = text.rstrip("?.! ")
    if rng.random() < 0.35:
        text = _with_typo(text, rng)
    if rng.random() < 0.25:
        text = rng.choice(_OPENINGS) + text
    if rng.random() < 0.25:
        text += rng.choice(_CLOSINGS)
    return text


def _with_typo(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    place = rng.randrange(len(words))
    word = words[place]
    if len(word) < _SHORTEST_TYPO or not word.isalpha():
        return text
    at = rng.randrange(1, len(word) - 2)
    words[place] = rng.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at] + word[at:],
        )
    )
    return " ".join(words)
