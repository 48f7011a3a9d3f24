"""Personal data: what would tell one user about another if an answer were shared."""

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from policies.guardrails import pii_numbers, pii_words
from policies.guardrails.patterns import Candidate, any_of, compiled, encoded, union
from policies.guardrails.types import Action, Material, Subject, Verdict

Accept = Callable[[Candidate], bool]


class Rule(NamedTuple):
    """Kind, pattern, the closer look at what it matches, and a sign without which it accepts nothing."""

    kind: str
    pattern: Any
    accept: Accept
    needs: str = "digit"


_SIGNS = {"digit": re.compile(rb"\d"), "@": re.compile(b"@"), ":": re.compile(b":"), "": re.compile(b"")}


class _Rules:
    """Rules that are looked for together; a text in which none of them can be costs one pass."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._any = union(rule.pattern for rule in rules)

    def worth_a_try(self, data: bytes) -> Iterable[Rule]:
        """Those that may find something."""
        if not data or not self._any.search(data):
            return ()
        there = {sign for sign, pattern in _SIGNS.items() if pattern.search(data)}
        return (rule for rule in self.rules if rule.needs in there)


_SHORT_BYTES = 500
_AROUND_BYTES = 64


class PiiGuard:
    """Finds personal data by kind; `spans` counts the texts in which each kind was found.

    Contacts that the operator calls public are let pass.
    """

    name: ClassVar[str] = "pii"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "private"
    data_file: ClassVar[str] = ""
    of_questions: ClassVar[bool] = True

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._public = frozenset(_plain(contact) for contact in material.public)
        anywhere = [
            *(Rule(each.kind, each.pattern, each.accepts) for each in pii_numbers.lettered_ids()),
            Rule("iban", pii_numbers.IBAN, pii_numbers.is_iban),
            Rule("ip", pii_numbers.IPV6, pii_numbers.is_ip, ":"),
            Rule("email", pii_words.EMAIL, pii_words.is_email, "@"),
            Rule("birth", pii_words.BIRTH, pii_words.is_birth),
            Rule("licence", pii_words.LICENCE, pii_words.is_licence, ""),
            Rule("person", pii_words.PERSON, pii_words.is_person, ""),
            Rule("address", pii_words.ADDRESS, pii_words.is_address),
            Rule("address", pii_words.LIVES, pii_words.is_address),
        ]
        numbers = [
            Rule("card", pii_numbers.CARD, pii_numbers.is_card),
            Rule("ip", pii_numbers.IPV4, pii_numbers.is_ip),
            *(Rule(each.kind, each.pattern, each.accepts) for each in pii_numbers.national_ids()),
            Rule("phone", pii_numbers.PHONE, pii_numbers.is_phone),
        ]
        self._numbers = _Rules(tuple(numbers))
        self._anywhere = _Rules(tuple(anywhere))
        self._many_digits = compiled(r"\d(?:[^\d\r\n]{0,3}\d){4,}")

    def check(self, subject: Subject) -> Verdict | None:
        """One verdict for all kinds; its reason is the first kind of the strictest order: numbers, then words."""
        found: dict[str, int] = {}
        for text in subject.texts:
            for kind in self.kinds(text):
                found[kind] = found.get(kind, 0) + 1
        if not found:
            return None
        return Verdict(self.name, f"pii_{next(iter(found))}", self._action, found)

    def kinds(self, text: str) -> list[str]:
        """Kinds of personal data in a text, each once."""
        data = encoded(text)
        found = [
            *self._in(self._around_digits(data), self._numbers),
            *self._in(data, self._anywhere),
        ]
        return list(dict.fromkeys(found))

    def _in(self, data: bytes, rules: _Rules) -> list[str]:
        return [
            rule.kind
            for rule in rules.worth_a_try(data)
            if any_of(rule.pattern, data, self._but_public(rule.accept))
        ]

    def _around_digits(self, data: bytes) -> bytes:
        """The text without what stands far from groups of digits; numbers and their surroundings stay whole."""
        if len(data) < _SHORT_BYTES:
            return data if self._many_digits.search(data) else b""
        pieces: list[bytes] = []
        start, end = 0, 0
        for match in self._many_digits.finditer(data):
            if match.start() - _AROUND_BYTES > end:
                pieces.append(data[start:end])
                start = match.start() - _AROUND_BYTES
            end = match.end() + _AROUND_BYTES
        return b"\n\n".join([*pieces, data[start:end]])

    def _but_public(self, accept: Accept) -> Accept:
        if not self._public:
            return accept
        return lambda candidate: not self._is_public(candidate.value) and accept(candidate)

    def _is_public(self, value: str) -> bool:
        plain = _plain(value)
        return plain in self._public or plain.rpartition("@")[2] in self._public


def _plain(contact: str) -> str:
    """Lower case; of numbers, their digits and letters alone."""
    contact = contact.strip().lower()
    return contact if "@" in contact or "." in contact else "".join(sign for sign in contact if sign.isalnum())
