"""Spelling: whether two words are one word written differently."""

_BY_HAND = (
    ("ph", "f"),
    ("ise", "ize"),
    ("isat", "izat"),
    ("our", "or"),
    ("é", "e"),
    ("ä", "a"),
    ("ö", "o"),
    ("ü", "u"),
)
_ABBREVIATED = 3
_REST = 3
_PARTING = frozenset({"off", "on", "mine", "e"})


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


def same_word(one: str, other: str) -> bool:
    """Whether two words are near, one abbreviates or derives from the other, or they differ by a spelling rule."""
    short, long = sorted((one, other), key=len)
    if long.startswith(short) and (
        len(short) > _ABBREVIATED or (len(short) == _ABBREVIATED and len(long) > _REST * 2)
    ):
        return True
    if long.endswith(short) and long[: len(long) - len(short)] in _PARTING:
        return True
    if (
        min(len(one), len(other)) > _ABBREVIATED
        and not any(mark.isdigit() for mark in one + other)
        and near(one, other)
    ):
        return one[:1] == other[:1] or len(one) != len(other)
    return any(one.replace(*rule) == other.replace(*rule) for rule in _BY_HAND)
