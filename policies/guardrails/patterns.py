"""Regular expressions in linear time over UTF-8 bytes; the only place that compiles them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import re2

MOST_CANDIDATES = 300
"""So many are looked at closely in one text; a text with more of a kind counts as holding one."""

_MAX_MEMORY_BYTES = 64 << 20


def compiled(pattern: str, *, ignore_case: bool = True) -> Any:
    """The pattern over bytes: classes are ASCII, other letters are the bytes 0x80 to 0xff."""
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    return re2.compile(pattern.encode("latin-1"), options)


def union(patterns: Iterable[Any]) -> Any:
    """A pattern that is found in just those texts in which one of the compiled ones is: one pass, not many."""
    parts = (f"(?{'-i' if each.options.case_sensitive else 'i'}:{_source(each)})" for each in patterns)
    return compiled("|".join(parts), ignore_case=False)


def _source(pattern: Any) -> str:
    source = pattern.pattern
    return source.decode("latin-1") if isinstance(source, bytes) else source


def encoded(text: str) -> bytes:
    """UTF-8; what UTF-8 cannot hold becomes a question mark."""
    return text.encode("utf-8", "replace")


class Candidate(msgspec.Struct, frozen=True):
    """A place in a text that may be what a rule looks for, with what stands around it."""

    value: str
    before: bytes
    after: bytes


def candidates(pattern: Any, text: bytes, around: int = 48) -> Iterator[Candidate]:
    """Places where the pattern's first group, or all of it, matches, with bytes of context."""
    group = 1 if pattern.groups else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        value = text[start:end].decode("utf-8", "replace")
        yield Candidate(value, text[max(0, start - around) : start], text[end : end + around])


def any_of(pattern: Any, text: bytes, accept: Callable[[Candidate], bool]) -> bool:
    """Whether one of the places is accepted; too many to look at count as accepted."""
    for number, candidate in enumerate(candidates(pattern, text)):
        if number >= MOST_CANDIDATES or accept(candidate):
            return True
    return False
