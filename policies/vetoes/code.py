"""Ids, versions, addresses, paths, quoted words and pieces of code: both questions name the same ones."""

from policies.vetoes.facts import Facts


def differs(stored: Facts, asked: Facts) -> str | None:
    """The first piece that only one question names."""
    for ours, theirs in ((stored, asked), (asked, stored)):
        for piece in (*ours.codes - theirs.codes, *ours.links - theirs.links, *ours.symbols - theirs.symbols):
            if piece not in theirs.words:
                return piece
        for quote in ours.quotes - theirs.quotes:
            if not theirs.words.issuperset(quote):
                return " ".join(quote)
    return None
