"""Questions about the asker's own account: the answer is right for one user only."""

from collections.abc import Iterator
from typing import ClassVar

from policies.guardrails.linear import LinearModel, read_model
from policies.guardrails.patterns import compiled, encoded
from policies.guardrails.types import Action, Material, Subject, Verdict

_THINGS = (
    r"orders?|package|parcel|delivery|shipment|refund|payments?|transactions?|balance|accounts?|bills?|invoices?"
    r"|cards?|loan"
    r"|mortgage|claims?|subscription|plan|contract|membership|appointments?|reservations?|bookings?|flights?"
    r"|tickets?"
    r"|vacation|payslip|salary|paycheck|timesheet|points|credit limit|pin|statement|deposit|transfer|application"
    r"|usage"
    r"|profile|results?|meetings?|messages|address on file|account manager|login|routing number|insurance"
    r"|rewards|pto"
)
_MINE = compiled(rf"\b(?:my|our)\b (?:\w+ ){{0,3}}(?:{_THINGS})\b")
_STATE = compiled(
    r"\b(?:where(?:'s| is| are| are)|when(?:'s| is| will| does| was| did)|has|have|is|was|did|why (?:is|was|has"
    r"|were|did)"
    r"|what(?:'s| is| was| are| did)|how much|how many|status of|which)\b[^?.]{0,40}\b(?:my|our|i|me)\b"
)
_DID_I = compiled(
    r"\b(?:did i|have i|am i|was i|i was|i ordered|i paid|do i (?:have|owe)|i have been|i told you|based on my)\b"
)
_ORDERS = compiled(
    r"^\W{0,3}(?:please |can you |could you |i (?:want|need|would like) (?:you )?to )?(?:cancel|track|pay|freeze"
    r"|block|move|show(?: me)?"
    r"|check|look up|list|find|tell me|remind me|update|transfer|send|close|renew)\b[^?.]{0,30}\b(?:my|i|me)\b"
)
_GENERAL = compiled(
    r"^\W{0,3}(?:how (?:do|can|could|should|would|to|long does)|what (?:happens|does|should)|can i|could i"
    r"|is (?:there|it)|are there|do you"
    r"|explain|translate|write|why (?:does|do|are)|what (?:is|are) (?:a|an|your|the)|which (?:vitamin"
    r"|documents?)|who is the|lyrics)\b"
)
_TOKENS = (("mine", _MINE), ("state", _STATE), ("did i", _DID_I), ("orders", _ORDERS), ("general", _GENERAL))
_LOOKED_AT_CHARS = 2_000


class PersonalGuard:
    """Tells "where is my order" from "how do I track an order" by a small model over the question."""

    name: ClassVar[str] = "personal"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "private"
    data_file: ClassVar[str] = "personal.bin"
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._model: LinearModel = read_model(material.data)

    def check(self, subject: Subject) -> Verdict | None:
        """Judges the last user turn."""
        question = subject.question
        if question.strip() and self._model.alarms(
            {"question": question}, personal_tokens(question), subject.cuttings
        ):
            return Verdict(self.name, "personal", self._action, {"question": 1})
        return None


def personal_tokens(question: str) -> Iterator[str]:
    """What the model is told beside the words: whose things are meant; whether a way or a state is asked for."""
    data = encoded(question[:_LOOKED_AT_CHARS])
    found = [name for name, pattern in _TOKENS if pattern.search(data)]
    yield from found
    yield " and ".join(found) or "none"
