"""Relations: which words stand at which end of a direction, and the order of those that relate to one another."""

from collections.abc import Sequence

from policies.vetoes.inflection import stem
from policies.vetoes.reading.tokens import Token

_PERSONS = {"i": "i", "me": "i", "my": "i", "mine": "i", "i'm": "i", "i've": "i", "you": "you", "your":
    "you", "we": "i",
            "us": "i", "our": "i"}  # fmt: skip
_RELATING = frozenset({"to", "from", "into", "by", "than", "and", "or", "with", "for", "before", "after", "over",
                       "without", "versus", "vs", "on", "of", "in"})  # fmt: skip
_ARROWS = frozenset({"to", "into", "->", "=>"})
_REACH = 4
_SPAN = 6


def order(row: Sequence[Token], fillers: frozenset[str]) -> tuple[str, ...]:
    """The content words, relating words and persons, in their order."""
    found = []
    for token in row:
        word = token.text
        if word in _RELATING:
            found.append(word)
        elif word in _PERSONS:
            found.append(_PERSONS[word])
        elif word not in fillers and token.kind not in {"stop", "comma"}:
            found.append(stem(word))
    return tuple(found)


def ends(row: Sequence[Token], fillers: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The words at the beginning and those at the end of a direction."""
    origins, targets = set(), set()
    for at, token in enumerate(row):
        if token.text == "from":
            origins |= _next(row[at + 1 : at + 1 + _REACH], fillers)
        elif token.text in _ARROWS:
            targets |= _next(row[at + 1 : at + 1 + _REACH], fillers)
            origins |= _next(row[at - 1 : at] if at else (), fillers)
    return frozenset(origins), frozenset(targets)


def sources(row: Sequence[Token], fillers: frozenset[str]) -> frozenset[str]:
    """The words behind a `from` whose other end follows it, as in `from A to B`."""
    found: set[str] = set()
    for at, token in enumerate(row):
        if token.text == "from" and _other_end(row[at + 2 : at + 2 + _SPAN]):
            found |= _next(row[at + 1 : at + 1 + _REACH], fillers)
    return frozenset(found)


def _other_end(row: Sequence[Token]) -> bool:
    """Whether an arrow follows in the same clause."""
    for token in row:
        if token.kind in {"stop", "comma"}:
            return False
        if token.text in _ARROWS:
            return True
    return False


def _next(words: Sequence[Token], fillers: frozenset[str]) -> set[str]:
    """The first content word."""
    for token in words:
        if token.kind in {"stop", "comma"} or token.text in _RELATING:
            return set()
        if token.text not in fillers:
            return {stem(token.text)}
    return set()
