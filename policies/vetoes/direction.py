"""Direction: the same words with their ends swapped, as in `from A to B` against `from B to A`."""

from policies.vetoes.facts import Facts

_EITHER_WAY = frozenset({"and", "or", "with", "vs", "versus"})
_LONGEST_END = 3


def differs(stored: Facts, asked: Facts) -> str | None:
    """The two ends that changed places."""
    one = stored.origins & asked.targets - stored.targets
    other = stored.targets & asked.origins - stored.origins
    if one and other:
        return f"{' '.join(sorted(one))} / {' '.join(sorted(other))}"
    turned = _turned(stored, asked) | _turned(asked, stored)
    if turned:
        return f"from / to {' '.join(sorted(turned))}"
    return _swapped(stored.order, asked.order)


def _turned(whole: Facts, other: Facts) -> frozenset[str]:
    """Where one question, which has both ends in a clause, comes from, and the other one goes to."""
    return (whole.sources & other.targets) - whole.targets - other.origins


def _swapped(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str | None:
    """`X … Y` in one and `Y … X` in the other where all else is equal and what stands between is not symmetric."""
    if len(ours) != len(theirs) or ours == theirs or sorted(ours) != sorted(theirs):
        return None
    start = next(at for at in range(len(ours)) if ours[at] != theirs[at])
    end = next(at for at in range(len(ours)) if ours[-1 - at] != theirs[-1 - at])
    one, other = ours[start : len(ours) - end], theirs[start : len(ours) - end]
    for left in range(1, min(_LONGEST_END, len(one) - 1) + 1):
        for right in range(1, min(_LONGEST_END, len(one) - left) + 1):
            middle = one[left : len(one) - right]
            if (
                one[len(one) - right :] + middle + one[:left] == other
                and middle
                and _EITHER_WAY.isdisjoint(middle)
            ):
                return f"{' '.join(one)} / {' '.join(other)}"
    return None
