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
_REACH_CHARS = 2 * _MAX_WORD_CHARS
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

    def score(
        self, texts: Mapping[str, str], tokens: Iterable[str] = (), cuttings: "Cuttings | None" = None
    ) -> float:
        """Log-odds of the alarm; what was cut for another model is taken from the cuttings."""
        weigh = memoryview(self.weights).cast("b").__getitem__
        total = 0.0
        for features, value in buckets(self.fields, self.bits, texts, tokens, cuttings):
            total += value * sum(map(weigh, features))
        return self.bias + self.scale * total

    def alarms(
        self, texts: Mapping[str, str], tokens: Iterable[str] = (), cuttings: "Cuttings | None" = None
    ) -> bool:
        """Whether the score reaches the threshold."""
        return self.score(texts, tokens, cuttings) >= self.threshold


def read_model(data: bytes) -> LinearModel:
    """The model that a data file holds.

    Raises:
        msgspec.DecodeError: the bytes are no model.
    """
    return msgspec.msgpack.decode(data, type=LinearModel)


class Cuttings:
    """Words and features of texts, each text cut once however many models read it; lives as long as a request."""

    __slots__ = ("_features", "_words")

    def __init__(self) -> None:
        self._words: dict[str, list[str]] = {}
        self._features: dict[tuple[object, ...], tuple[frozenset[int], ...]] = {}

    def __eq__(self, other: object) -> bool:
        """All are alike: they hold nothing that the texts do not say."""
        return isinstance(other, Cuttings)

    def __hash__(self) -> int:
        return hash(Cuttings)

    def features(self, field: Field, bits: int, text: str) -> tuple[frozenset[int], ...]:
        """Buckets of a text's runs of words, and of its runs of letters; none of them is empty."""
        ends = () if self._fits(field, text) else (field.head, field.tail)
        recipe = (text, field.name, field.words, field.letters, bits, ends)
        found = self._features.get(recipe)
        if found is None:
            words = self._of_both_ends(text, field) if ends else self._whole(text)
            found = self._features[recipe] = tuple(filter(None, _features(words, field, (1 << bits) - 1)))
        return found

    def _fits(self, field: Field, text: str) -> bool:
        limit = field.head + field.tail
        return 2 * len(text) <= limit or (len(text) <= _REACH_CHARS * limit and len(self._whole(text)) <= limit)

    def _of_both_ends(self, text: str, field: Field) -> list[str]:
        if len(text) > _REACH_CHARS * (field.head + field.tail):
            words = _words(f"{text[: _REACH_CHARS * field.head]} {text[-_REACH_CHARS * field.tail - 1 :]}")
        else:
            words = self._whole(text)
        if len(words) > field.head + field.tail:
            words = words[: field.head] + words[len(words) - field.tail :]
        return words

    def _whole(self, text: str) -> list[str]:
        words = self._words.get(text)
        if words is None:
            words = self._words[text] = _words(text)
        return words


def buckets(
    fields: Iterable[Field],
    bits: int,
    texts: Mapping[str, str],
    tokens: Iterable[str] = (),
    cuttings: Cuttings | None = None,
) -> list[tuple[frozenset[int], float]]:
    """Features of each field as buckets, with the value each of them counts; the guard's own tokens come last."""
    cuttings = cuttings or Cuttings()
    found = [
        (each, field.gain / math.sqrt(len(each)))
        for field in fields
        for each in cuttings.features(field, bits, texts.get(field.name, ""))
    ]
    own = frozenset(zlib.crc32(b"@" + token.encode()) & ((1 << bits) - 1) for token in tokens)
    if own:
        found.append((own, 1.0))
    return found


def _features(words: list[str], field: Field, mask: int) -> tuple[frozenset[int], frozenset[int]]:
    salt = _salt(field.name, "w")
    runs = frozenset([zlib.crc32(run, salt) & mask for run in map(str.encode, _runs(words, field.words))])
    if not field.letters[1]:
        return runs, frozenset()
    salt = _salt(field.name, "c")
    return runs, frozenset().union(*[_letters(word, field.letters, salt, mask) for word in set(words)])


@functools.cache
def _salt(name: str, kind: str) -> int:
    return zlib.crc32(f"{name}:{kind}".encode())


def _words(text: str) -> list[str]:
    """Lower-case words, digits and signs."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [word[:_MAX_WORD_CHARS] for word in _WORD.findall(text.lower())]


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
    padded = f" {word} "
    shortest, longest = lengths
    return tuple(
        zlib.crc32(padded[start : start + length].encode(), salt) & mask
        for length in range(shortest, min(longest, len(padded)) + 1)
        for start in range(len(padded) - length + 1)
    )
