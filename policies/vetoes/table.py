"""The vetoes in the order in which they are asked, cheapest first."""

import functools
import importlib
from collections.abc import Callable

from policies.vetoes.facts import Facts
from policies.vetoes.lexicon import Lexicon
from policies.vetoes.reading.reader import read

Differs = Callable[[Facts, Facts], str | None]

VETOES: dict[str, str] = {
    "unread": "policies.vetoes.unread:differs",
    "number": "policies.vetoes.number:differs",
    "date": "policies.vetoes.date:differs",
    "code": "policies.vetoes.code:differs",
    "harm": "policies.vetoes.harm:differs",
    "verdict": "policies.vetoes.verdict:differs",
    "negation": "policies.vetoes.negation:differs",
    "antonym": "policies.vetoes.antonym:differs",
    "converse": "policies.vetoes.converse:differs",
    "action": "policies.vetoes.action:differs",
    "place": "policies.vetoes.place:differs",
    "modifier": "policies.vetoes.modifier:differs",
    "tense": "policies.vetoes.tense:differs",
    "scope": "policies.vetoes.scope:differs",
    "person": "policies.vetoes.person:differs",
    "question": "policies.vetoes.question:differs",
    "direction": "policies.vetoes.direction:differs",
    "name": "policies.vetoes.name:differs",
    "wording": "policies.vetoes.wording:differs",
}
"""Name → lazy "module:function"; the name is the reason in metrics and answers."""


def compare(stored: Facts, asked: Facts) -> str | None:
    """The first veto against one answer for both questions; None when none speaks."""
    for name, differs in _loaded():
        if differs(stored, asked):
            return name
    return None


def explain(stored: str, asked: str, lexicon: Lexicon) -> list[tuple[str, str]]:
    """Every veto that speaks and what it saw."""
    ours, theirs = read(stored, lexicon), read(asked, lexicon)
    details = ((name, differs(ours, theirs)) for name, differs in _loaded())
    return [(name, detail) for name, detail in details if detail]


@functools.cache
def _loaded() -> tuple[tuple[str, Differs], ...]:
    found = []
    for name, target in VETOES.items():
        module, _, function = target.partition(":")
        found.append((name, getattr(importlib.import_module(module), function)))
    return tuple(found)
