"""Questions whose answer depends on when they are asked: who holds an office, prices, weather, records, counts."""

from typing import ClassVar

from policies.guardrails.linear import LinearModel, read_model
from policies.guardrails.patterns import compiled, encoded
from policies.guardrails.types import Action, Material, Subject, Verdict

_SAYS_NOW = compiled(
    r"\b(?:right now|at the moment|as of (?:now|today)|these days|today'?s?|tonight|tomorrow|yesterday|currently"
    r"|latest|up[- ]to[- ]date|most recent|breaking news|(?:this|next|last) (?:week|month|weekend|morning"
    r"|evening|night)"
    r"|so far this|what time is it|current (?:time|date|price|weather|version|status|score|temperature|president"
    r"|prime minister|ceo|exchange rate|population))\b"
)
_LOOKED_AT_CHARS = 2_000


class TimeBoundGuard:
    """Gives such answers a short life in the exact layer and none in the semantic one."""

    name: ClassVar[str] = "time_bound"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "short_life"
    data_file: ClassVar[str] = "time_bound.bin"
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._ttl_s = material.ttl_s if material.action == "short_life" else None
        self._model: LinearModel = read_model(material.data)

    def check(self, subject: Subject) -> Verdict | None:
        """Judges both ends of the last user turn; what stands between is material, not question."""
        question = subject.question
        if not question.strip():
            return None
        if says_now(question) or self._model.alarms({"question": question}, (), subject.cuttings):
            return Verdict(self.name, "time_bound", self._action, {"question": 1}, self._ttl_s)
        return None


def says_now(question: str) -> bool:
    """Whether a short question names the present."""
    return len(question) <= _LOOKED_AT_CHARS and _SAYS_NOW.search(encoded(question)) is not None
