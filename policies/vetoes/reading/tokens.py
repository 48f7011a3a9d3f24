"""Tokens: words, figures and the pieces that must not be cut, such as addresses and code.

Every repetition in the pattern is bounded or cannot be entered twice at one place, so the time is linear in the
text; only the first and the last characters of a long text are read, and the digest of the rest is a fact.
"""

import hashlib
import re
from typing import NamedTuple

READ_CHARACTERS = 4000
_HEAD, _TAIL = 3000, 1000

_SCAN = re.compile(
    r"(?P<word>[^\W\d_]{1,60}(?:'[^\W\d_]{1,20}){0,3}(?![\w@(/\\:+#-]|\.\w))"
    r"|(?P<fence>```)"
    r"|(?P<code>`[^`\n]{1,120}`)"
    r"|(?P<link>(?:https?://|www\.)[^\s<>\"')\]]{3,300}"
    r"|[\w+-]{1,40}(?:\.[\w+-]{1,40}){0,4}@[\w-]{1,40}(?:\.[\w-]{1,40}){1,4}"
    r"|(?<![\w/.])(?:~|\.{1,2})?/[\w.-]{2,80}(?:/[\w.*-]{1,80}){0,20}|[A-Za-z]:\\[^\s\"]{1,200})"
    r"|(?P<language>(?<!\w)(?:[cC]\+\+|[cC]\#|[fF]\#|\.NET)(?!\w))"
    r"|(?P<symbol>===?|!==?|<=|>=|=>|->|&&|\|\||\+\+|:=|\*\*|<<|>>)"
    r"|(?P<name>[A-Za-z]\w{0,60}\(\)|[A-Za-z_]\w{0,60}_\w{1,60}|--[a-z][a-z-]{1,40})"
    r"|(?P<isodate>\d{4}-\d{1,2}-\d{1,2}(?!\d))"
    r"|(?P<date>\d{1,2}[/.]\d{1,2}[/.](?:\d{4}|\d{2})(?!\d))"
    r"|(?P<clock>\d{1,2}[:.]\d{2}(?::\d{2})?\s?(?:[aApP]\.?[mM]\b\.?)|\d{1,2}:\d{2}(?::\d{2})?(?!\d)"
    r"|\d{1,2}\s?(?:[aApP]\.?[mM]\b\.?|o'?\s?clock))"
    r"|(?P<version>[vV]?\d{1,5}(?:\.\d{1,5}){2,5}|[vV]\d{1,5}(?:\.\d{1,5})?)(?![\w.])"
    r"|(?P<ordinal>\d{1,6}(?:st|nd|rd|th)\b)"
    r"|(?P<phone>\+\d{1,3}[\s-]?\d[\d\s-]{5,20}\d)"
    r"|(?P<decade>(?:1[89]|20)\d0'?s\b)"
    r"|(?P<money>[$€£¥₹]\s?)"
    r"|(?P<fraction>\d{1,3}/\d{1,3}(?![\d/]))"
    r"|(?P<number>(?:\d{1,3}(?:,\d{3}){1,5}(?!\d)|\d{1,30},\d\d(?![\d,])|\d{1,30})(?:\.\d{1,20})?)"
    r"|(?P<piece>[^\W\d_]{1,60}(?:'[^\W\d_]{1,20}){0,3})"
    r"|(?P<percent>%)"
    r"|(?P<stop>[.?!;\n])"
    r"|(?P<comma>,)"
)
_SPECIAL = re.compile(r"[\d`@/\\_()#+=<>&|:*$€£¥₹%~]|--|->|[.!]\w")
_PLAIN = re.compile(r"([^\W\d_]{1,60}(?:'[^\W\d_]{1,20}){0,3})|([.?!;\n])|(,)")
_QUOTE_MARKS = frozenset("\"“”«`'")
_QUOTES = re.compile(r"[\"“”«]([^\"“”»\n]{1,160})[\"“”»]|(?<!\w)['`]{1,2}([^'`\n]{2,160}?)'{1,2}(?!\w)")
_BLANKS = re.compile(r"[^\S\n]+")
_WORD = re.compile(r"[^\W_]{1,60}")


class Token(NamedTuple):
    """A piece of text.

    Attributes:
        kind: which alternative of the pattern took it.
        text: in lower case.
        capital: as written, it begins with a capital letter.
        upper: as written, it has two or more letters and all are capitals.
        first: it begins a sentence.
        glued: no blank stands before it.
    """

    kind: str
    text: str
    capital: bool = False
    upper: bool = False
    first: bool = False
    glued: bool = False


def bounded(text: str) -> tuple[str, bytes]:
    """The part that is read, in straight apostrophes and single blanks, and the digest of the rest."""
    if len(text) <= READ_CHARACTERS:
        return _straight(text), b""
    middle = text[_HEAD:-_TAIL]
    digest = hashlib.sha256(middle.encode("utf-8", "surrogatepass")).digest()
    return _straight(f"{text[:_HEAD]}\n{text[-_TAIL:]}"), digest


def _straight(text: str) -> str:
    return _BLANKS.sub(" ", text.replace("\u2019", "'").replace("\u2018", "'"))


def tokens(text: str) -> list[Token]:
    """The tokens of a bounded text, in order."""
    return _pieces(text) if _SPECIAL.search(text) else _plain(text)


def _plain(text: str) -> list[Token]:
    """The tokens of a text of words and stops."""
    found = []
    first = True
    for written, stop, comma in _PLAIN.findall(text):
        if written:
            lower = written.lower()
            capital = lower[0] != written[0]
            found.append(Token("word", lower, capital, capital and len(written) > 1 and written.isupper(), first))
            first = False
        elif stop:
            first = True
            found.append(Token("stop", stop))
        else:
            found.append(Token("comma", comma))
    return found


def _pieces(text: str) -> list[Token]:
    found = []
    first, end = True, -1
    for match in _SCAN.finditer(text):
        kind, written = match.lastgroup or "", match.group()
        glued = match.start() == end
        end = match.end()
        if kind in {"word", "piece"}:
            lower = written.lower()
            capital = lower[0] != written[0]
            found.append(
                Token("word", lower, capital, capital and len(written) > 1 and written.isupper(), first, glued)
            )
            first = False
        elif kind == "stop":
            first = True
            found.append(Token(kind, written))
        else:
            found.append(Token(kind, written.lower(), glued=glued))
            first = first and kind in {"fence", "comma"}
    return found


def quotes(text: str) -> frozenset[tuple[str, ...]]:
    """The quoted passages as words in lower case."""
    if _QUOTE_MARKS.isdisjoint(text):
        return frozenset()
    found = (tuple(_WORD.findall((a or b).lower())) for a, b in _QUOTES.findall(text))
    return frozenset(words for words in found if words)
