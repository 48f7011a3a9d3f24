"""The vetoes of `policies/vetoes`, with the facts of each text read once."""

import hashlib
import json
from typing import Protocol

from policies.vetoes import VETOES, Facts, Lexicon, compare, read
from semantic.remembered import Remembered

_REMEMBERED_TEXTS = 50_000


class Vetoes(Protocol):
    """Rules that say that two texts cannot share an answer."""

    @property
    def fingerprint(self) -> str:
        """Digest of what decides."""
        ...

    def veto(self, stored: str, asked: str) -> str | None:
        """The name of the rule that speaks against one answer for both texts, or None."""
        ...


class FactVetoes:
    """Compares facts by a lexicon; safe from several threads."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._facts: Remembered[str, Facts] = Remembered(_REMEMBERED_TEXTS, lambda _facts: 1)
        made_from = json.dumps([lexicon.lists, *VETOES.items()])
        self.fingerprint = hashlib.sha256(made_from.encode()).hexdigest()[:16]

    def veto(self, stored: str, asked: str) -> str | None:
        """The first rule that speaks, or None."""
        return compare(self._read(stored), self._read(asked))

    def _read(self, text: str) -> Facts:
        facts = self._facts.get(text)
        if facts is None:
            facts = read(text, self._lexicon)
            self._facts.put(text, facts)
        return facts
