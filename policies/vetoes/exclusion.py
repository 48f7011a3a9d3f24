"""Closed groups: two texts clash where each names a member of a group that the other does not."""

from policies.vetoes.facts import Facts

_COUPLE = 2


def clash(stored: Facts, asked: Facts, kind: str, *, single: bool = False) -> str | None:
    """The members that differ in the first group of the kind where they do; with `single`, one of each."""
    ours, theirs = stored.marks.get(kind), asked.marks.get(kind)
    if not ours or not theirs:
        return None
    for group, members in ours.items():
        others = theirs.get(group)
        if not others or members == others or (single and len(members) + len(others) > _COUPLE):
            continue
        if members - others and others - members:
            return f"{' '.join(sorted(members - others))} / {' '.join(sorted(others - members))}"
    return None
