"""Word forms of English: enough to know `cancelled` by `cancel`, not a grammar."""

import functools

_VOWELS = frozenset("aeiou")
_DOUBLING = frozenset("bdgklmnprt")


def verb_forms(word: str) -> tuple[str, ...]:
    """The word and its regular forms in -s, -ed and -ing, in British and American spelling."""
    last, before = word[-1:], word[-2:-1]
    if last == "e":
        return (word, f"{word}s", f"{word}d", f"{word[:-1]}ing", f"{word}r")
    if last == "y" and before not in _VOWELS:
        return (word, f"{word[:-1]}ies", f"{word[:-1]}ied", f"{word}ing")
    forms = [word, _plural(word), f"{word}ed", f"{word}ing"]
    if last in _DOUBLING and before in _VOWELS and word[-3:-2] not in _VOWELS:
        forms += [f"{word}{last}ed", f"{word}{last}ing"]
    return tuple(forms)


def adjective_forms(word: str) -> tuple[str, ...]:
    """The word and its forms in -er, -est and -ly."""
    last, before = word[-1:], word[-2:-1]
    if last == "e":
        return (word, f"{word}r", f"{word}st", f"{word[:-1]}y" if word.endswith("le") else f"{word}ly")
    if last == "y" and before not in _VOWELS:
        return (word, f"{word[:-1]}ier", f"{word[:-1]}iest", f"{word[:-1]}ily")
    forms = [word, f"{word}er", f"{word}est", f"{word}ly"]
    if last in _DOUBLING and before in _VOWELS and word[-3:-2] not in _VOWELS:
        forms += [f"{word}{last}er", f"{word}{last}est"]
    return tuple(forms)


def noun_forms(word: str) -> tuple[str, ...]:
    """The word and its plural."""
    return (word, _plural(word))


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in _VOWELS:
        return f"{word[:-1]}ies"
    return f"{word}s"


@functools.lru_cache(maxsize=32_768)
def stem(word: str) -> str:
    """The word without the endings of number, tense and degree; equal for the regular forms of one word."""
    size = len(word)
    if size <= 3:  # noqa: PLR2004
        return word
    if word.endswith("ies") and size > 4:  # noqa: PLR2004
        return f"{word[:-3]}y"
    if word.endswith("ied") and size > 4:  # noqa: PLR2004
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) > 2 and not _VOWELS.isdisjoint(rest):  # noqa: PLR2004
            return _closed(rest)
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004


def _closed(rest: str) -> str:
    if rest[-1] == rest[-2] and rest[-1] in _DOUBLING:
        return rest[:-1]
    return rest
