"""Too much text to judge, or to compare by meaning."""

from typing import ClassVar

from policies.guardrails.types import Action, Material, Subject, Verdict


class SizeGuard:
    """Stores nothing that is too long to be judged in time, and compares no long question by meaning.

    An embedder reads the first few hundred words only: two long questions may differ where it does not look.
    """

    name: ClassVar[str] = "size"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = ""
    of_questions: ClassVar[bool] = True

    def __init__(self, material: Material) -> None:
        self._material = material

    def check(self, subject: Subject) -> Verdict | None:
        """The whole is measured against `max_chars`, the last turn against `max_semantic_chars`."""
        if subject.chars > self._material.max_chars:
            return Verdict(self.name, "size", self._material.action)
        if len(subject.question) > self._material.max_semantic_chars:
            return Verdict(self.name, "long_question", "exact_only")
        return None
