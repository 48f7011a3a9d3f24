"""Likeness: how much of their content two texts share; some rules hold only between near neighbours."""

from policies.vetoes.facts import Facts


def likeness(stored: Facts, asked: Facts) -> float:
    """Shared content words by those of the longer text, 0 to 1."""
    ours, theirs = set(stored.content), set(asked.content)
    longer = max(len(ours), len(theirs))
    return len(ours & theirs) / longer if longer else 1.0
