"""The lexicon: every word list the vetoes use, parsed into tables for one look-up per word.

The lists are the text files of `data/`; this module is given their contents. A line that starts with `#` is
a remark, but `# forms: verb adjective noun` and `# kind: antonym` in a file's head say how its words inflect and
what its groups are for. Words of a phrase are joined by `_`; `..` in a phrase stands for up to four words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from policies.vetoes.inflection import adjective_forms, noun_forms, stem, verb_forms

Value = TypeVar("Value")

Mark = tuple[str, str, str]
"""Kind, group, member: a word names `member`, which excludes the group's other members."""

GROUPED, NARROWING = -1_000_000, -2_000_000
"""Senses at or below them say that a word is a member of a closed group, and of one that narrows what is asked."""

_NO_SYNONYMS = frozenset({"harm"})
_NARROWING = frozenset({"modifier", "person", "place", "scope"})

_FORMS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "verb": verb_forms,
    "adjective": adjective_forms,
    "noun": noun_forms,
}


class Meaning(msgspec.Struct, frozen=True):
    """What a word or phrase contributes.

    Attributes:
        marks: memberships in closed groups.
        dates: parts of a date.
        polarity: `negating`, `doubtful`, `neutral` or empty.
        canonical: the content word it stands for; empty for the word itself.
    """

    marks: tuple[Mark, ...] = ()
    dates: tuple[tuple[str, int], ...] = ()
    polarity: str = ""
    canonical: str = ""


Phrase = tuple[tuple[str, ...], Meaning]
"""The words after the first, and what the whole means."""


class Lexicon(msgspec.Struct, frozen=True):
    """Tables by word in lower case; see the module."""

    words: dict[str, Meaning]
    phrases: dict[str, tuple[Phrase, ...]]
    fillers: frozenset[str]
    numbers: dict[str, float]
    ordinals: dict[str, int]
    units: dict[str, tuple[str, float]]
    months: dict[str, int]
    senses: dict[str, frozenset[int]]
    special: frozenset[str] = frozenset()
    """Every word that begins something other than plain content."""
    lists: str = ""
    """Digest of the files, for a fingerprint."""


def parse(files: Mapping[str, str], digest: str = "") -> Lexicon:
    """The lexicon of the files' contents by name.

    Raises:
        ValueError: a line cannot be read; the message names file and line.
    """
    meanings: dict[str, list[Meaning]] = {}
    for name, text in files.items():
        reader = _READERS.get(name, _groups)
        if reader is not None:
            for word, meaning in reader(name, text):
                meanings.setdefault(word, []).append(meaning)
    for word in _denying(files["synonyms.txt"]):
        meanings.setdefault(word, []).append(Meaning(polarity="doubtful"))
    merged = {word: _merged(several) for word, several in meanings.items()}
    numbers = dict(_pairs(files["numbers.txt"], float))
    ordinals = dict(_pairs(files["ordinals.txt"], int))
    months = dict(_pairs(files["months.txt"], int))
    return Lexicon(
        words={word: meaning for word, meaning in merged.items() if " " not in word},
        phrases=_by_first_word(merged),
        fillers=frozenset(word for _, line in _lines(files["fillers.txt"]) for word in line.split()),
        numbers=numbers,
        ordinals=ordinals,
        units=dict(_units(files["units.txt"])),
        months=months,
        senses=_senses(files["synonyms.txt"], merged, files["likewise.txt"]),
        special=frozenset({*(w.partition(" ")[0] for w in merged), *numbers, *ordinals, *months, "a", "an"}),
        lists=digest,
    )


def _denying(synonyms: str) -> Iterator[str]:
    """Words that are negative by their prefix or ending: `unused` beside `used`, `sugarless` beside `sugar`."""
    known = {word for _, line in _lines(synonyms) for word in line.split()}
    for word in known:
        base = next((word[len(prefix) :] for prefix in ("un", "dis", "non") if word.startswith(prefix)), "")
        if base in known or (word.endswith("less") and word[:-4] in known):
            yield word


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _head(text: str, name: str) -> list[str]:
    """The words of a `# name: …` line among the first lines."""
    for line in text.splitlines()[:8]:
        if line.startswith(f"# {name}:"):
            return line.partition(":")[2].split()
    return []


def _groups(name: str, text: str) -> Iterator[tuple[str, Meaning]]:
    """`member also | other member | …`, one group of members that exclude each other a line."""
    kind, forms = _head(text, "kind"), _head(text, "forms")
    if not kind:
        raise ValueError(f"{name}: no '# kind:' line")
    for number, line in _lines(text):
        members = [member.split() for member in line.split("|")]
        if not all(members):
            raise ValueError(f"{name}:{number}: an empty member")
        group = f"{kind[0]}:{number}"
        for member in members:
            named = member[0].startswith(":")
            for word in _inflected(member[1:] if named else member, forms):
                yield word, Meaning(marks=((kind[0], group, member[0].lstrip(":=")),))


def _inflected(words: Iterable[str], forms: list[str]) -> Iterator[str]:
    """The words and phrases with the forms of their first word; `=word` stays as it is."""
    for word in words:
        first, _, rest = word.lstrip("=").replace("_", " ").partition(" ")
        ways = () if word.startswith("=") else tuple(_FORMS[form] for form in forms)
        inflected = {first, *(form for way in ways for form in way(first))}
        yield from (f"{form} {rest}" if rest else form for form in sorted(inflected))


def _aliases(name: str, text: str) -> Iterator[tuple[str, Meaning]]:
    for number, line in _lines(text):
        canonical, colon, words = line.partition(":")
        if not colon:
            raise ValueError(f"{name}:{number}: no colon")
        for word in {canonical, *words.split()}:
            yield word.replace("_", " "), Meaning(canonical=stem(canonical))


def _polarities(name: str, text: str) -> Iterator[tuple[str, Meaning]]:
    for number, line in _lines(text):
        polarity, colon, words = line.partition(":")
        if polarity not in {"negating", "doubtful", "neutral"} or not colon:
            raise ValueError(f"{name}:{number}: neither negating, doubtful nor neutral")
        for word in _inflected(words.split(), ["verb"] if polarity == "doubtful" else []):
            yield word, Meaning(polarity=polarity)


def _dates(name: str, text: str) -> Iterator[tuple[str, Meaning]]:
    for number, line in _lines(text):
        words, equals, parts = line.partition("=")
        values = parts.split()
        if not equals or not values:
            raise ValueError(f"{name}:{number}: no date")
        read = tuple((part.partition("/")[0], int(part.partition("/")[2])) for part in values)
        for word in words.split():
            yield word.replace("_", " "), Meaning(dates=read)


_READERS: dict[str, Callable[[str, str], Iterator[tuple[str, Meaning]]] | None] = {
    "aliases.txt": _aliases,
    "negation.txt": _polarities,
    "dates.txt": _dates,
    **dict.fromkeys(
        ("fillers.txt", "numbers.txt", "ordinals.txt", "units.txt", "months.txt", "synonyms.txt", "likewise.txt")
    ),
}
"""How each file is read that holds no groups; None for those with a table of their own."""


def _merged(several: list[Meaning]) -> Meaning:
    return Meaning(
        marks=tuple(dict.fromkeys(mark for meaning in several for mark in meaning.marks)),
        dates=tuple(part for meaning in several for part in meaning.dates),
        polarity=next((meaning.polarity for meaning in several if meaning.polarity), ""),
        canonical=next((meaning.canonical for meaning in several if meaning.canonical), ""),
    )


def _by_first_word(meanings: Mapping[str, Meaning]) -> dict[str, tuple[Phrase, ...]]:
    phrases: dict[str, list[Phrase]] = {}
    for words, meaning in meanings.items():
        first, *rest = words.split(" ")
        if rest:
            phrases.setdefault(first, []).append((tuple(rest), meaning))
    return {first: tuple(sorted(found, key=_longest_first)) for first, found in phrases.items()}


def _longest_first(phrase: Phrase) -> tuple[bool, int]:
    return ".." in phrase[0], -len(phrase[0])


def _pairs(text: str, cast: Callable[[str], Value]) -> Iterator[tuple[str, Value]]:
    for _, line in _lines(text):
        value, *words = line.split()
        yield from ((word, cast(value)) for word in words)


def _units(text: str) -> Iterator[tuple[str, tuple[str, float]]]:
    for _, line in _lines(text):
        dimension, factor, *words = line.split()
        yield from ((word, (dimension, float(factor))) for word in words)


def _senses(synonyms: str, meanings: Mapping[str, Meaning], likewise: str) -> dict[str, frozenset[int]]:
    """Numbers that two words share when they may stand for one another: synonym sets and members of groups."""
    senses: dict[str, set[int]] = {}
    for number, line in _lines(synonyms):
        for word in line.split():
            senses.setdefault(stem(word), set()).add(number)
    for number, line in _lines(likewise):
        for word in _inflected(line.split(), _head(likewise, "forms")):
            senses.setdefault(stem(word), set()).add(-number)
    numbers: dict[Mark, int] = {}
    for word, meaning in meanings.items():
        for mark in (each for each in meaning.marks if each[0] not in _NO_SYNONYMS):
            known = numbers.setdefault(mark, (NARROWING if mark[0] in _NARROWING else GROUPED) - len(numbers))
            senses.setdefault(stem(word), set()).add(known)
    return {word: frozenset(found) for word, found in senses.items()}
