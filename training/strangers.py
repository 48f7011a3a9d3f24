"""Questions of other families that lie near: what an index nominates when nothing right is stored."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from training.pairs import Family, Pair

_NEAREST = 12
_ROWS_AT_ONCE = 512
_FARTHEST, _SUSPICIOUS = 0.35, 0.75
"""Cosines between which a pair is used: above, two families may well ask the same."""

Strangers = dict[str, tuple[str, ...]]
"""Text → near texts of other families."""


def find_strangers(families: Sequence[Family], sentences: Callable[[Sequence[str]], np.ndarray]) -> Strangers:
    """The near strangers of each wording.

    Args:
        families: among which is searched.
        sentences: fp32 [N, H], unit rows, of N texts.
    """
    texts = [text for family in families for text in family.same]
    owners = np.array([number for number, family in enumerate(families) for _ in family.same])
    vectors = sentences(texts)
    found: Strangers = {}
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        alike = vectors[start : start + _ROWS_AT_ONCE] @ vectors.T
        alike[owners[start : start + _ROWS_AT_ONCE, None] == owners[None, :]] = -1.0
        alike[alike > _SUSPICIOUS] = -1.0
        for row, nearest in enumerate(np.argpartition(-alike, _NEAREST, axis=1)[:, :_NEAREST]):
            near = tuple(texts[place] for place in nearest if alike[row, place] > _FARTHEST)
            found[texts[start + row]] = near
    return found


def strangers_of(family: Family, strangers: Strangers, rng: random.Random, count: int) -> list[Pair]:
    """Up to so many pairs of a family's wordings with near strangers, sides in random order."""
    open_texts = [text for text in family.same if strangers.get(text)]
    found = []
    for _ in range(count if open_texts else 0):
        one = rng.choice(open_texts)
        sides = [one, rng.choice(strangers[one])]
        rng.shuffle(sides)
        found.append(Pair(sides[0], sides[1], False, "stranger"))
    return found
