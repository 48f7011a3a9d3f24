"""Marks of a text's tokens: which word each belongs to, and what kind of word that is.

S tokens of a text, special ones included.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_ENDING = re.compile(r"(?:ing|ed|es|s|ly)$")
_SHORTEST_WITH_ENDING = 5
_FIRST_WORD_ID = 1996
"""BERT's vocabulary lists words by falling frequency from about here on."""

FLAGS = 4


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of each token besides its states.

    Attributes:
        stems: per token the stem of its word, empty for a special token.
        flags: fp32 [S, FLAGS]: special, has a digit, capitalised inside the text, rarity of the word.
    """

    stems: tuple[str, ...]
    flags: np.ndarray


def stem(word: str) -> str:
    """The word in lower case without the commonest endings; crude, and the same on both sides of a pair."""
    lower = word.lower()
    if len(lower) < _SHORTEST_WITH_ENDING:
        return lower
    return _ENDING.sub("", lower).removesuffix("e")


def mark(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> Marks:
    """Marks the tokens of a text.

    Args:
        text: as it was tokenised.
        ids: of the tokens, for their rarity.
        offsets: start and end of each token in the text, equal for a special token.
    """
    word_at = _words_by_place(text)
    flags = np.zeros((len(ids), FLAGS), np.float32)
    stems: list[str] = []
    rarity: dict[int, float] = {}
    for place, (start, end) in enumerate(offsets):
        if end <= start:
            flags[place, 0] = 1.0
            stems.append("")
            continue
        number, word = word_at.get(start, (-1, text[start:end]))
        stems.append(word)
        piece = text[start:end]
        rarity.setdefault(number, _rarity(ids[place]))
        flags[place, 1] = any(sign.isdigit() for sign in piece)
        flags[place, 2] = piece[:1].isupper() and start > 0
        flags[place, 3] = rarity[number]
    return Marks(tuple(stems), flags)


def _words_by_place(text: str) -> dict[int, tuple[int, str]]:
    """For each place of a word, the word's number and stem."""
    found: dict[int, tuple[int, str]] = {}
    for number, match in enumerate(_WORD.finditer(text)):
        entry = (number, stem(match.group()))
        for place in range(match.start(), match.end()):
            found[place] = entry
    return found


def _rarity(token: int) -> float:
    return math.log1p(max(0, token - _FIRST_WORD_ID)) / 10
