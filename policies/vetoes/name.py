"""Names: each question has one that the other lacks."""

from policies.vetoes.facts import Facts
from policies.vetoes.spelling import near

_SHORT = 4


def differs(stored: Facts, asked: Facts) -> str | None:
    """The names that differ."""
    if not stored.names or not asked.names or stored.names == asked.names:
        return None
    ours = [name for name in stored.names - asked.names if _absent(name, asked)]
    theirs = [name for name in asked.names - stored.names if _absent(name, stored)]
    if ours and theirs:
        return f"{' '.join(sorted(ours))} / {' '.join(sorted(theirs))}"
    return None


def _absent(name: str, other: Facts) -> bool:
    """Whether no word of the other text is the name, a form of it, its abbreviation or a slip of the pen."""
    words = other.words
    if name in words or f"{name}s" in words or name.removesuffix("s") in words:
        return False
    if len(name) <= _SHORT:
        return name not in other.initials and not any(len(name) > 2 and word.startswith(name) for word in words)  # noqa: PLR2004
    return not any(word[:1] == name[:1] and (near(name, word) or _short_for(word, name)) for word in words)


def _short_for(word: str, name: str) -> bool:
    return len(word) > 2 and (name.startswith(word) or word.startswith(name))  # noqa: PLR2004
