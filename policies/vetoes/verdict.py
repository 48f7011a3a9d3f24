"""Verdicts: why something was done is another question than why it was right, or wrong, to do it."""

from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The judgement that one of two questions for a reason takes for granted."""
    ours, theirs = _judged(stored), _judged(asked)
    if (ours and theirs) or not (_why(stored) and _why(asked)):
        return None
    return " ".join(sorted(ours | theirs)) or None


def _why(facts: Facts) -> bool:
    return any("reason" in named for named in facts.marks.get("asks", {}).values())


def _judged(facts: Facts) -> frozenset[str]:
    return frozenset().union(*facts.marks.get("verdict", {}).values())
