"""What the load asks, and every kind of purge with the questions that it takes; nothing of the product judges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Mode = Literal["hard", "soft"]
_INSTRUCTION = "You are the support desk."
_QUESTIONS = 20
_EARLIER_S = 0.05
"""So much before now is a time that has passed by every worker's clock."""


@dataclass(frozen=True, slots=True)
class Question:
    """One of the questions; its number says who asks it, of which route, under which tag and version."""

    number: int

    @property
    def route(self) -> str:
        """`m`, or `n`, which has the alias `nn` and asks the model `big`."""
        return "mn"[self.number % 2]

    @property
    def user(self) -> str:
        """Who asks."""
        return ("ann", "bob", "eve")[self.number % 3]

    @property
    def session(self) -> str:
        """In which session."""
        return f"s{self.number % 4}"

    @property
    def tag(self) -> str:
        """Of which group its answer is."""
        return "docs" if self.number < _QUESTIONS // 2 else "news"

    @property
    def knowledge(self) -> int:
        """The version of `kb`."""
        return 3 if self.number % 5 < 3 else 7

    @property
    def instructed(self) -> bool:
        """Whether it carries the text that is registered as a version."""
        return self.number % 4 == 1

    @property
    def headers(self) -> Mapping[str, str]:
        """What the request says of it."""
        return {
            "x-lamina-cache-groups": self.tag,
            "x-lamina-user": self.user,
            "x-lamina-session": self.session,
            "x-lamina-versions": f"kb={self.knowledge}",
        }

    def body(self, *, alias: bool, stream: bool) -> dict[str, Any]:
        """The request; under an alias it has the same entry."""
        instruction = [{"role": "system", "content": _INSTRUCTION}] if self.instructed else []
        return {
            "model": "nn" if alias and self.route == "n" else self.route,
            "messages": [*instruction, {"role": "user", "content": f"question {self.number}"}],
            "stream": stream,
        }


QUESTIONS = tuple(Question(number) for number in range(_QUESTIONS))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of purge.

    Attributes:
        takes: whether it takes the answers to a question.
        by_clock: whether it spares what is still being computed.
    """

    name: str
    value: str
    takes: Callable[[Question], bool]
    by_clock: bool = False

    @property
    def label(self) -> str:
        """Its name in the report."""
        return f"{self.name} {self.value}".rstrip()


_CHANGE = Kind("change", "", lambda question: question.instructed)
KINDS = (
    Kind("tenant", "", lambda _: True),
    Kind("tag", "docs", lambda question: question.tag == "docs"),
    Kind("user", "ann", lambda question: question.user == "ann"),
    Kind("session", "s1", lambda question: question.session == "s1"),
    Kind("entry", "", lambda _: False),
    Kind("age", "0s", lambda _: True, by_clock=True),
    Kind("model", "big", lambda question: question.route == "n"),
    Kind("version", "kb=3", lambda question: question.knowledge == 3),
    _CHANGE,
    Kind("entry", "deleted", lambda _: False),
    Kind("version", "kb=*", lambda _: True),
    Kind("route", "m", lambda question: question.route == "m"),
    Kind("model", "nn", lambda question: question.route == "n"),
    Kind("age", "time", lambda _: True, by_clock=True),
    Kind("version", "kb<4", lambda question: question.knowledge < 4),
    Kind("route", "nn", lambda question: question.route == "n"),
)
"""`entry` takes the one that is drawn; `change` gives new content to the version that the instruction is.

By meaning is not among them: the stand has no semantic service.
"""


@dataclass(frozen=True, slots=True)
class Order:
    """A purge as it is sent.

    Attributes:
        kind, mode: which.
        covers: numbers of the questions whose answers it takes.
        method, path, body: the request.
    """

    kind: Kind
    mode: Mode
    covers: frozenset[int]
    method: str = "POST"
    path: str = "/admin/v1/purges"
    body: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """Its name in the report."""
        return f"{self.kind.label} {self.mode}"


def planned(number: int) -> tuple[Kind, Mode]:
    """The kind and the mode of the purge of this number: each kind in turn, hard or soft, then the other way."""
    turn, place = divmod(number, len(KINDS))
    return KINDS[place], "hard" if (turn + place) % 2 == 0 else "soft"


def ordered(kind: Kind, mode: Mode, raised: int, entry: tuple[int, str] | None, now_s: float) -> Order:
    """The purge to send; of everything, where an entry is to be named and there is none.

    Args:
        kind: which.
        mode: hard or soft.
        raised: the version of the model's answers now.
        entry: number and X-Lamina-Cache-Id of a question that was answered.
        now_s: seconds since the epoch.
    """
    if kind.name == "entry":
        return ordered(KINDS[0], mode, raised, None, now_s) if entry is None else _of_entry(kind, mode, *entry)
    covers = frozenset(question.number for question in QUESTIONS if kind.takes(question))
    if kind.name == "change":
        return Order(kind, mode, covers, path="/admin/v1/tenants/default/versions", body=_version(raised, mode))
    value = kind.value
    if value == "time":
        value = datetime.fromtimestamp(now_s - _EARLIER_S, UTC).isoformat()
    return Order(kind, mode, covers, body=_purge(kind.name, value, mode))


def registered() -> Order:
    """The version that `change` changes, as it is registered first."""
    return ordered(_CHANGE, "hard", 0, None, 0.0)


def _of_entry(kind: Kind, mode: Mode, number: int, id_: str) -> Order:
    covers = frozenset({number})
    if kind.value:
        return Order(kind, mode, covers, "DELETE", f"/admin/v1/entries/default/{id_}?mode={mode}&reason=chaos")
    return Order(kind, mode, covers, body=_purge("entry", id_, mode))


def _purge(kind: str, value: str, mode: Mode) -> dict[str, Any]:
    return {"tenant": "default", "kind": kind, "value": value, "mode": mode, "reason": "chaos"}


def _version(raised: int, mode: Mode) -> dict[str, Any]:
    named = {"name": "support", "version": "1", "kind": "prompt", "instructions": [_INSTRUCTION]}
    return {**named, "content": str(raised), "mode": mode}
