"""Wording: the same sentence with another word in one place, or with words added that narrow it."""

from policies.vetoes.facts import Facts
from policies.vetoes.lexicon import NARROWING
from policies.vetoes.spelling import same_word

_COMMON = {
    (1, 1): 3,
    (1, 2): 4,
    (2, 2): 3,
    (1, 3): 3,
    (2, 3): 4,
    (3, 3): 5,
    (0, 1): 4,
    (0, 2): 3,
    (0, 3): 3,
    (0, 4): 4,
}
"""Words in the places that differ → words that must be common around them."""

_ADDED = (0, 1)
"""One word more, which counts only when it is a member of a closed group."""


def differs(stored: Facts, asked: Facts) -> str | None:
    """The words that stand in one another's place; nothing for synonyms and slips of the pen."""
    ours, theirs = stored.content, asked.content
    size = min(len(ours), len(theirs))
    start = 0
    while start < size and ours[start] == theirs[start]:
        start += 1
    end = 0
    while end < size - start and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    left, right = slice(start, len(ours) - end), slice(start, len(theirs) - end)
    one, other = ours[left], theirs[right]
    shape = (min(len(one), len(other)), max(len(one), len(other)))
    if start + end < _COMMON.get(shape, size + 1):
        return None
    if shape == _ADDED and not any(
        sense <= NARROWING for sense in (*stored.senses[left], *asked.senses[right])[0]
    ):
        return None
    if one and other:
        senses, also = frozenset().union(*stored.senses[left]), frozenset().union(*asked.senses[right])
        if not senses.isdisjoint(also) or same_word("".join(one), "".join(other)):
            return None
    return f"{' '.join(one)} / {' '.join(other)}"
