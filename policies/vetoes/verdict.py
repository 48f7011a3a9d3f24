"""Verdicts: why something was done is another question than why it was right, or wrong, to do it."""

from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The judgement that one of two questions for a reason takes for granted."""
    ours, theirs = _judged(stored), _judged(asked)
    return " ".join(sorted(ours ^ theirs)) if bool(ours) != bool(theirs) and _why(stored) and _why(asked) else None


def _why(facts: Facts) -> bool:
    return any("reason" in named for named in facts.marks.get("asks", {}).values())


def _judged(facts: Facts) -> frozenset[str]:
    return frozenset().union(*facts.marks.get("verdict", {}).values())
