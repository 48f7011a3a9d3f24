"""The nouns of guardrails: what is judged, what a guard is built from, and what it says."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

import msgspec

from policies.guardrails.linear import Cuttings
from policies.types import Json

Action = Literal["refuse", "private", "exact_only", "short_life"]
"""What becomes of an answer: never stored; stored only where one user, session or conversation shares it; kept out
of the semantic layer; kept out of it and given a short life."""

ACTIONS: tuple[Action, ...] = ("refuse", "private", "exact_only", "short_life")
"""From the strictest to the mildest."""


class Subject(msgspec.Struct, frozen=True):
    """A request, and its answer once there is one.

    Attributes:
        question: the last user turn's text, empty when there is none.
        turn_texts: texts of all turns that are no instructions, the last user turn among them.
        system_texts: texts of system and developer messages.
        answer_texts: visible text and tool arguments of every choice; empty before there is an answer.
        content_texts: those of the answer texts that are visible text, not tool arguments.
        response_format: of the request, or None.
        size_bytes: of the answer as it would be stored; 0 when not known.
        scope_kind: who would share the entry: tenant, user, session or conversation.
        cuttings: what guards that read the same texts have cut already.
    """

    question: str
    turn_texts: tuple[str, ...] = ()
    system_texts: tuple[str, ...] = ()
    answer_texts: tuple[str, ...] = ()
    content_texts: tuple[str, ...] = ()
    response_format: Json | None = None
    size_bytes: int = 0
    scope_kind: str = "tenant"
    cuttings: Cuttings = msgspec.field(default_factory=Cuttings)

    @property
    def prompt_texts(self) -> tuple[str, ...]:
        """All that was asked: instructions, then turns."""
        return self.system_texts + self.turn_texts

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was asked and answered."""
        return self.system_texts + self.turn_texts + self.answer_texts

    @property
    def chars(self) -> int:
        """Length of all texts together."""
        return sum(map(len, self.texts))


class Verdict(msgspec.Struct, frozen=True):
    """Why an answer must not be stored freely; never holds any of the text.

    Attributes:
        guard: the guard's name.
        reason: a metric label out of a closed set, such as `pii_email`.
        action: what becomes of the answer.
        spans: how many places were found, by kind.
        ttl_s: longest life of the entry, for `short_life`.
    """

    guard: str
    reason: str
    action: Action
    spans: Mapping[str, int] = msgspec.field(default_factory=dict)
    ttl_s: float | None = None


class Material(msgspec.Struct, frozen=True):
    """What a guard is built from.

    Attributes:
        action: what the operator wants of its verdicts.
        data: content of its data file; empty when it names none.
        ttl_s: life that `short_life` allows.
        public: contacts that are nobody's secret: addresses, numbers, or domains of mail addresses.
        max_chars: longest text of one request and answer that is judged at all.
        max_semantic_chars: longest last turn that may be compared by meaning.
    """

    action: Action
    data: bytes = b""
    ttl_s: float = 60.0
    public: tuple[str, ...] = ()
    max_chars: int = 400_000
    max_semantic_chars: int = 4_000


class Guard(Protocol):
    """A rule about what may be stored.

    An implementation is pure, thread-safe, linear in the text, and does not raise on any text; should it raise all
    the same, the answer is not stored. Contract test: tests/policies/guardrails/test_contract.py.

    Attributes:
        name: its key in GUARDRAILS.
        version: changes whenever the code judges differently.
        default_action: what its verdicts mean unless the operator says otherwise.
        data_file: a file in policies/guardrails/data, or empty.
        of_questions: whether it also speaks before the look-up: its verdict then keeps a question away from the
            index, the database and the log.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    default_action: ClassVar[Action]
    data_file: ClassVar[str]
    of_questions: ClassVar[bool]

    def __init__(self, material: Material) -> None: ...

    def check(self, subject: Subject) -> Verdict | None:
        """The verdict, or None when this guard has nothing against the answer."""
