"""Harm: where a question touches violence, self-harm or hate, only a near repeat may have its answer.

How people suffered and how to make them suffer, why something happened and why it was right, share nearly all
words and all topics; what may be said to one of them is wrong, or worse, for the other.
"""

from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_NEAR_REPEAT = 0.75


def differs(stored: Facts, asked: Facts) -> str | None:
    """The matters that one question alone touches, or that both touch in words that differ."""
    ours, theirs = _matters(stored), _matters(asked)
    if not ours and not theirs:
        return None
    if ours != theirs:
        return f"{' '.join(sorted(ours ^ theirs))}"
    return " ".join(sorted(ours)) if likeness(stored, asked) < _NEAR_REPEAT else None


def _matters(facts: Facts) -> frozenset[str]:
    return frozenset().union(*facts.marks.get("harm", {}).values())
