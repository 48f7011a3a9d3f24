"""Numbers: every amount of one question has its equal in the other, in whatever unit it is written."""

from policies.vetoes.facts import Amount, Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The amounts that only one question names."""
    if stored.amounts == asked.amounts:
        return None
    lonely = _lonely(stored.amounts, asked.amounts) + _lonely(asked.amounts, stored.amounts)
    if not lonely:
        return None
    return ", ".join(sorted({f"{value:g} {dimension}".strip() for dimension, _, value, _ in lonely}))


def _lonely(these: tuple[Amount, ...], those: tuple[Amount, ...]) -> list[Amount]:
    return [one for one in these if not one[3] and not any(_equal(one, other) for other in those)]


def _equal(one: Amount, other: Amount) -> bool:
    if one[0] == other[0]:
        return one[1] == other[1]
    return (not one[0] or not other[0] or "pounds" in {one[0], other[0]}) and one[2] == other[2]
