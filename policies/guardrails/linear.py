"""Small linear models over hashed n-grams: a sum of byte-sized weights, fast enough for every write.

A model is a data file that `training/guards.py` writes. Its features are words, runs of words and runs of letters
of named fields (`question`, `answer`), each hashed to one of 2^bits buckets, and tokens that a guard adds itself.
A field's features share a weight of 1 over the root of their number, so that long texts do not shout.
"""

import functools
import math
import re
import zlib
from collections.abc import Iterable, Mapping

import msgspec

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d|[^\w\s]")
_MAX_WORD_CHARS = 24
_REMEMBERED_WORDS = 8_192


class Field(msgspec.Struct, frozen=True):
    """How one field becomes features.

    Attributes:
        name: the field's name, part of every feature.
        words: longest run of words, 0 for none.
        letters: shortest and longest run of letters inside a word, both 0 for none.
        head, tail: how many words at either end are looked at.
        gain: weight of the field.
    """

    name: str
    words: int
    letters: tuple[int, int] = (0, 0)
    head: int = 150
    tail: int = 50
    gain: float = 1.0


class LinearModel(msgspec.Struct, frozen=True):
    """A trained model as its file holds it.

    Attributes:
        name: the guard it belongs to.
        fields: what it reads.
        bits: log2 of the number of buckets.
        weights: one signed byte a bucket.
        scale: what a step of a weight is worth.
        bias: added to every score.
        threshold: scores at or above it are alarms.
    """

    name: str
    fields: tuple[Field, ...]
    bits: int
    weights: bytes
    scale: float
    bias: float
    threshold: float

    def score(self, texts: Mapping[str, str], tokens: Iterable[str] = ()) -> float:
        """Log-odds of the alarm."""
        weights = memoryview(self.weights).cast("b")
        total = 0.0
        for features, value in buckets(self.fields, self.bits, texts, tokens):
            total += value * sum(weights[feature] for feature in features)
        return self.bias + self.scale * total

    def alarms(self, texts: Mapping[str, str], tokens: Iterable[str] = ()) -> bool:
        """Whether the score reaches the threshold."""
        return self.score(texts, tokens) >= self.threshold


def read_model(data: bytes) -> LinearModel:
    """The model that a data file holds.

    Raises:
        msgspec.DecodeError: the bytes are no model.
    """
    return msgspec.msgpack.decode(data, type=LinearModel)


def buckets(
    fields: Iterable[Field], bits: int, texts: Mapping[str, str], tokens: Iterable[str] = ()
) -> list[tuple[set[int], float]]:
    """Features of each field as buckets, with the value each of them counts; the guard's own tokens come last."""
    mask = (1 << bits) - 1
    found: list[tuple[set[int], float]] = []
    for field in fields:
        words = _words(texts.get(field.name, ""), field)
        salt = _salt(field.name, "w")
        runs = {zlib.crc32(run.encode("utf-8", "replace"), salt) & mask for run in _runs(words, field.words)}
        letters: set[int] = set()
        if field.letters[1]:
            salt = _salt(field.name, "c")
            letters.update(*(_letters(word, field.letters, salt, mask) for word in set(words)))
        found += [(each, field.gain / math.sqrt(len(each))) for each in (runs, letters) if each]
    own = {zlib.crc32(b"@" + token.encode()) & mask for token in tokens}
    if own:
        found.append((own, 1.0))
    return found


def _salt(name: str, kind: str) -> int:
    return zlib.crc32(f"{name}:{kind}".encode())


def _words(text: str, field: Field) -> list[str]:
    """Lower-case words, digits and signs of both ends of the text."""
    reach = _MAX_WORD_CHARS * 2
    if len(text) > reach * (field.head + field.tail):
        text = f"{text[: reach * field.head]} {text[-reach * field.tail - 1 :]}"
    words = _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    if len(words) > field.head + field.tail:
        words = words[: field.head] + words[len(words) - field.tail :]
    return [word[:_MAX_WORD_CHARS] for word in words]


def _runs(words: list[str], longest: int) -> set[str]:
    runs: set[str] = set(words) if longest else set()
    for length in range(2, longest + 1):
        runs.update(map(" ".join, zip(*(words[start:] for start in range(length)), strict=False)))
    if longest and words:
        runs.update((f"^ {words[0]}", f"{words[-1]} $", "^ " + " ".join(words[:2])))
    return runs


@functools.lru_cache(maxsize=_REMEMBERED_WORDS)
def _letters(word: str, lengths: tuple[int, int], salt: int, mask: int) -> tuple[int, ...]:
    """Buckets of a word's runs of letters, remembered since words come again."""
    padded = f" {word} ".encode("utf-8", "replace").decode()
    shortest, longest = lengths
    return tuple(
        zlib.crc32(padded[start : start + length].encode(), salt) & mask
        for length in range(shortest, min(longest, len(padded)) + 1)
        for start in range(len(padded) - length + 1)
    )
