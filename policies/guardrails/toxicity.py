"""Hate, harassment, violence, self-harm and sexual content: not to be handed to others who did not ask."""

from typing import ClassVar

from policies.guardrails.linear import LinearModel, read_model
from policies.guardrails.types import Action, Material, Subject, Verdict


class ToxicityGuard:
    """Judges the question and each answer by a small model; a first sieve, not a moderator."""

    name: ClassVar[str] = "toxicity"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = "toxicity.bin"
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._model: LinearModel = read_model(material.data)

    def check(self, subject: Subject) -> Verdict | None:
        """The first text that reaches the threshold."""
        for part, texts in (("answer", subject.answer_texts), ("question", (subject.question,))):
            if any(text and self._model.alarms({"text": text}, (), subject.cuttings) for text in texts):
                return Verdict(self.name, "toxicity", self._action, {part: 1})
        return None
