"""Turns, read once: their words, their facts, and whether they say anything at all."""

import hashlib
import re
from collections.abc import Sequence

import msgspec

from policies.conversations.wording import Wording
from policies.questions import Turn
from policies.vetoes import Facts, Lexicon, read

_WORD = re.compile(r"-?[^\W_]+(?:['.:,/-][^\W_]+)*|[^\w\s.,!?;:'\"()-]")
_CODE = re.compile(r"[{}=<>`_\\|\[\]^~*+]|\w\(")
_MOST_CHARACTERS = 4000
"""Of a turn, that words are taken from."""


class Told(msgspec.Struct, frozen=True):
    """One turn as it is compared.

    Attributes:
        role: `user` or `assistant`.
        text: as written.
        words: in lower case, with numbers whole.
        plain: the words without courtesies; turns with equal ones say the same. Where letter case or signs may
            matter, and where the turn is long, a digest of the text is one of them.
        facts: what its meaning hangs on.
        asks: it has a question mark.
    """

    role: str
    text: str
    words: tuple[str, ...]
    plain: tuple[str, ...]
    facts: Facts
    asks: bool = False

    @property
    def idle(self) -> bool:
        """Whether it says nothing but courtesies."""
        return not self.plain


def read_turn(turn: Turn, wording: Wording, lexicon: Lexicon) -> Told:
    """The turn as it is compared."""
    role, text = turn
    words = tuple(_WORD.findall(text[:_MOST_CHARACTERS].lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")))
    facts = read(text, lexicon)
    plain = wording.courtesy.without(words)
    if len(text) > _MOST_CHARACTERS or _CODE.search(text):
        plain = (*plain, hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest())
    return Told(role, text, words, plain, facts, "?" in text)


def read_turns(turns: Sequence[Turn], wording: Wording, lexicon: Lexicon) -> tuple[Told, ...]:
    """All turns, in their order."""
    return tuple(read_turn(turn, wording, lexicon) for turn in turns)
