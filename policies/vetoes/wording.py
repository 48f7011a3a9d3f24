"""Wording: the same sentence with one other word, which stands for something else."""

from policies.vetoes.facts import Facts
from policies.vetoes.name import near

_SPAN = 2
_COMMON = 2


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
    if start + end < _COMMON or not one or not other or len(one) > _SPAN or len(other) > _SPAN:
        return None
    senses, also = frozenset().union(*stored.senses[left]), frozenset().union(*asked.senses[right])
    if not senses.isdisjoint(also) or near("".join(one), "".join(other)):
        return None
    return f"{' '.join(one)} / {' '.join(other)}"
