"""The guards as the gateway loads them, and what they judge."""

from collections.abc import Mapping

from gateway.guards import load_guards
from gateway.settings_tables import GuardSettings
from policies.guardrails.types import Guard, Subject


def guards() -> Mapping[str, Guard]:
    """All guards with their own actions."""
    return {guard.name: guard for guard, _ in load_guards(GuardSettings())}


def asked(text: str, **fields: object) -> Subject:
    """A user's only turn."""
    return Subject(question=text, turn_texts=(text,), **fields)  # type: ignore[arg-type]


def answered(answer: str, question: str = "What is a heat pump?") -> Subject:
    """An answer to a plain question."""
    return Subject(question=question, turn_texts=(question,), answer_texts=(answer,), content_texts=(answer,))
