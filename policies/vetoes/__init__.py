"""Vetoes: plain rules that say two questions cannot share an answer, each with a reason.

`read` a text once, then `compare` its facts with any other's in microseconds. The word lists come from the caller.
"""

from policies.vetoes.facts import Facts
from policies.vetoes.lexicon import Lexicon, parse
from policies.vetoes.reading.reader import read
from policies.vetoes.table import VETOES, compare, explain

__all__ = ["VETOES", "Facts", "Lexicon", "compare", "explain", "parse", "read"]
