"""Closed groups: two texts clash where each names a member of a group that the other does not."""

from policies.vetoes.facts import Facts


def clash(stored: Facts, asked: Facts, kind: str) -> str | None:
    """The members that differ in the first group of the kind where they do."""
    ours, theirs = stored.marks.get(kind), asked.marks.get(kind)
    if not ours or not theirs:
        return None
    for group, members in ours.items():
        others = theirs.get(group)
        if others and members != others and members - others and others - members:
            return f"{' '.join(sorted(members - others))} / {' '.join(sorted(others - members))}"
    return None
