"""Question types: one question asks for a price, the other for a time, and no answer is both."""

from policies.vetoes.facts import Facts

_AGREE = (
    frozenset({"time", "duration", "frequency", "age"}),
    frozenset({"place", "way", "country", "city"}),
    frozenset({"person", "way"}),
    frozenset({"amount", "price", "count", "size", "weight", "distance", "duration", "frequency", "age", "speed",
               "temperature"}),
    frozenset({"way", "yes or no"}),
    frozenset({"way", "temperature"}),
    frozenset({"time", "count"}),
    frozenset({"time", "distance"}),
)  # fmt: skip
_APART = (frozenset({"price", "duration"}), frozenset({"price", "count"}), frozenset({"price", "age"}),
          frozenset({"price", "frequency"}), frozenset({"price", "distance"}))  # fmt: skip


def differs(stored: Facts, asked: Facts) -> str | None:
    """What they ask for, when no two of it can have one answer."""
    ours, theirs = _asked(stored), _asked(asked)
    if not ours or not theirs or any(_agree(one, other) for one in ours for other in theirs):
        return None
    if "way" in ours | theirs and not (stored.marks.get("asks") and asked.marks.get("asks")):
        return None
    return f"{' '.join(sorted(ours))} / {' '.join(sorted(theirs))}"


def _asked(facts: Facts) -> frozenset[str]:
    """By its question words, or where it has none, by its nouns, which never speak against asking for a way."""
    return frozenset().union(*(facts.marks.get("asks") or facts.marks.get("noun") or {}).values())


def _agree(one: str, other: str) -> bool:
    couple = frozenset({one, other})
    return len(couple) == 1 or (couple not in _APART and any(couple <= group for group in _AGREE))
