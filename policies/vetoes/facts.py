"""What a question says that its answer hangs on, read once and then only compared."""

import msgspec

Amount = tuple[str, float, float, bool]
"""Dimension ("" for a bare number), value in the dimension's base unit, value as written, and whether it is soft:
a one that a writer may well leave out."""

DatePart = tuple[str, int]
"""What is counted and its value: `year`, `month`, `day`, `weekday`, `decade`, `minute` of the day, `clock` (a time
that does not say which half of the day), `day_from_now` and so on."""

Marks = dict[str, dict[str, frozenset[str]]]
"""Kind of group → group → the members that the text names."""


class Facts(msgspec.Struct, frozen=True):
    """The comparable facts of one text; equal texts have equal facts.

    Attributes:
        words: every word, in lower case and stemmed.
        content: the words that carry meaning, stemmed, in their order, each with its senses in `senses`.
        senses: per content word the numbers of its WordNet synsets; words that share one may stand for each other.
        amounts: numbers, with units where they have one.
        dates: absolute and relative dates and times of day.
        codes, links, quotes, symbols: ids and versions; addresses and paths; quoted words; pieces of code.
        names: words that look like names, in lower case.
        bound_names: those of `names` behind a preposition, which narrows the question.
        marks: members of the closed groups.
        order: content and the words that relate it, pronouns folded to their person; for swaps.
        origins, targets: the words behind `from` and before `to`; the words behind `to` and `into`.
        sources: the words behind a `from` that a `to` or `into` follows, so that both ends are named.
        negations: number of negating words; only whether it is odd counts.
        denied: the content words behind the negating ones.
        initials: the first letters of the words, so that an abbreviation is found in what it stands for.
        doubtful: the text is negative without a negating word (`stopped`), so its polarity proves nothing.
        unread: digest of the part beyond the length that is read; empty when all was read.
    """

    words: frozenset[str] = frozenset()
    content: tuple[str, ...] = ()
    senses: tuple[frozenset[int], ...] = ()
    amounts: tuple[Amount, ...] = ()
    dates: frozenset[DatePart] = frozenset()
    codes: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    quotes: frozenset[tuple[str, ...]] = frozenset()
    symbols: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    bound_names: frozenset[str] = frozenset()
    marks: Marks = {}
    negations: int = 0
    doubtful: bool = False
    denied: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    initials: str = ""
    unread: bytes = b""
