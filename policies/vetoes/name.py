"""Names: each question has one that the other lacks, or one narrows its question by a name."""

from policies.vetoes.facts import Facts

_SHORT = 4


def differs(stored: Facts, asked: Facts) -> str | None:
    """The names that differ."""
    ours = [name for name in stored.names - asked.names if _absent(name, asked)]
    theirs = [name for name in asked.names - stored.names if _absent(name, stored)]
    if ours and theirs:
        return f"{' '.join(sorted(ours))} / {' '.join(sorted(theirs))}"
    bound = [*stored.bound_names.intersection(ours), *asked.bound_names.intersection(theirs)]
    return " ".join(sorted(bound)) or None


def _absent(name: str, other: Facts) -> bool:
    """Whether no word of the other text is the name, a form of it or a slip of the pen."""
    if name in other.words or f"{name}s" in other.words or name.removesuffix("s") in other.words:
        return False
    if len(name) <= _SHORT:
        return True
    return not any(word[:1] == name[:1] and near(name, word) for word in other.words)


def near(one: str, other: str) -> bool:
    """Whether two words differ by one slip: a letter more, less, another, or two changed places."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    left, right = one[start:], other[start:]
    return left[1:] == right or left == right[1:] or left[1:] == right[1:] or left[1::-1] + left[2:] == right
