"""Wording: closed lists of everyday words that tell chatter, pointing words and changes of mind from the rest."""

from collections.abc import Iterator, Sequence

import msgspec

Phrase = tuple[str, ...]

CLASSES = ("courtesy", "pointing", "opening", "asking", "change", "self", "bearing", "advice",
           "shift", "idiom", "person", "order", "promise", "picking")  # fmt: skip


class Phrases(msgspec.Struct, frozen=True):
    """Words and phrases of one class: by first word, the phrases' words, longest first."""

    by_first: dict[str, tuple[Phrase, ...]]

    def at(self, words: Sequence[str], start: int) -> int:
        """How many words from `start` on the longest phrase covers; 0 when none begins there."""
        for phrase in self.by_first.get(words[start], ()):
            if len(phrase) == 1 or tuple(words[start : start + len(phrase)]) == phrase:
                return len(phrase)
        return 0

    def count(self, words: Sequence[str]) -> int:
        """How many phrases the words hold."""
        return sum(1 for _ in self.spans(words))

    def spans(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Start and length of each phrase, left to right, without overlap."""
        start = 0
        while start < len(words):
            length = self.at(words, start)
            if length:
                yield start, length
            start += max(1, length)

    def without(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words outside all phrases."""
        covered = {place for start, length in self.spans(words) for place in range(start, start + length)}
        return tuple(word for place, word in enumerate(words) if place not in covered)


class Wording(msgspec.Struct, frozen=True):
    """The classes of `data/wording.txt`; see the remarks there."""

    courtesy: Phrases
    pointing: Phrases
    opening: Phrases
    asking: Phrases
    change: Phrases
    self: Phrases
    bearing: Phrases
    advice: Phrases
    shift: Phrases
    idiom: Phrases
    person: Phrases
    order: Phrases
    promise: Phrases
    picking: Phrases
    digest: str = ""


def parse_wording(text: str, digest: str = "") -> Wording:
    """The lists of a file's text.

    Raises:
        ValueError: a line has no known class before a colon; the message says which.
    """
    found: dict[str, list[Phrase]] = {name: [] for name in CLASSES}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, words = line.partition(":")
        if not colon or name not in found:
            raise ValueError(f"wording.txt:{number}: no class of {', '.join(CLASSES)}")
        found[name] += [tuple(word.split("_")) for word in words.split()]
    return Wording(**{name: _phrases(phrases) for name, phrases in found.items()}, digest=digest)


def _phrases(phrases: list[Phrase]) -> Phrases:
    by_first: dict[str, list[Phrase]] = {}
    for phrase in dict.fromkeys(phrases):
        by_first.setdefault(phrase[0], []).append(phrase)
    return Phrases({first: tuple(sorted(several, key=len, reverse=True)) for first, several in by_first.items()})
