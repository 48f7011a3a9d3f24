"""Ids, versions, addresses, paths, quoted words and pieces of code: both questions name the same ones."""

from policies.vetoes.facts import Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.5


def differs(stored: Facts, asked: Facts) -> str | None:
    """The pieces that differ; a piece in only one question counts between questions that are else alike."""
    ours, theirs = _lonely(stored, asked), _lonely(asked, stored)
    if ours and theirs:
        return f"{', '.join(ours)} / {', '.join(theirs)}"
    if (ours or theirs) and likeness(stored, asked) >= _ALIKE:
        return ", ".join(ours or theirs)
    return None


def _lonely(these: Facts, those: Facts) -> list[str]:
    pieces = [
        piece
        for piece in (*these.codes - those.codes, *these.links - those.links, *these.symbols - those.symbols)
        if piece not in those.words and not those.words.issuperset(piece.strip("_()").split("_"))
    ]
    pieces += [" ".join(quote) for quote in these.quotes - those.quotes if not those.words.issuperset(quote)]
    return sorted(pieces)
