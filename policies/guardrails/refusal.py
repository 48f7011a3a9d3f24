"""Refusals, lectures and half-answers: replayed, they would refuse every later asker too."""

import re
from collections.abc import Iterator
from typing import ClassVar

from policies.guardrails.linear import LinearModel, read_model
from policies.guardrails.patterns import compiled, encoded
from policies.guardrails.types import Action, Material, Subject, Verdict
from policies.refusal import looks_like_refusal

_LIST = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*\u2022])\s", re.MULTILINE)
_EVIDENCE = compiled(
    r"\b(?:sorry|apologi[sz]e|apologies|unfortunately|afraid|unable|cannot|can not|can(?:'|\xe2\x80\x99)?t"
    r"|refuse|decline"
    r"|won(?:'|\xe2\x80\x99)?t|don(?:'|\xe2\x80\x99)?t|shouldn(?:'|\xe2\x80\x99)?t|not|no|never|wrong"
    r"|false (?:assumption|claim|premise|information|statement)"
    r"|against|unacceptable"
    r"|ethic\w*|unethical|moral\w*|immoral|illegal\w*|legal\w*|laws?|unlawful|crimes?|criminal|respect\w*"
    r"|dignity|privacy"
    r"|private|confidential\w*|consent|personal (?:information|data|details|opinions?)|harm\w*|dangerous|unsafe"
    r"|inappropriate|offensive|hate|hurtful|discriminat\w*|prejudic\w*|stereotyp\w*|racis\w*|sexis\w*"
    r"|inclusiv\w*|equal\w*"
    r"|fair\w*|violen\w*|condemn\w*|tragic|tragedy|horrific|atrocit\w*|oppress\w*|human rights|violat\w*"
    r"|important to"
    r"|crucial|essential|responsib\w*|seek\w* (?:help|advice|professional\w*|support|medical)|help from"
    r"|professional"
    r"|therapist|counsell?or|helpline|authorities|language model|an ai|guidelines|polic(?:y|ies)|misinformation"
    r"|opinion"
    r"|condone|encourage|promot\w*)\b"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_DENIAL = re.compile(
    r"\b(?:not|no|never|nothing|none|nor|false|wrong|myth|cannot|without)\b|n['\u2019]t\b", re.IGNORECASE
)
_PRESUMES = re.compile(
    r"\s*(?:why|how come|what makes|what (?:is|are|was|were) the (?:benefits?|advantages?|positives?)"
    r"|what (?:is|was|were) (?:so )?(?:good|great|right)|explain why|in what way)\b",
    re.IGNORECASE,
)
_OPENING_CHARS = 400
_FENCE = "```"
_SHORT_WORDS, _LONG_WORDS = 40, 120


class RefusalGuard:
    """Judges each answer by a model trained on labelled answers; the opening words are one of its signals."""

    name: ClassVar[str] = "refusal"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = "refusal.bin"
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._model: LinearModel = read_model(material.data)

    def check(self, subject: Subject) -> Verdict | None:
        """Any refusing choice is enough."""
        for answer in subject.answer_texts:
            if may_refuse(answer) and self._model.alarms(
                {"answer": answer, "question": subject.question},
                refusal_tokens(answer, subject.question),
                subject.cuttings,
            ):
                return Verdict(self.name, "refusal", self._action, {"answer": 1})
        return None


def may_refuse(answer: str) -> bool:
    """Whether a word stands in the answer without which nobody refuses; most ordinary answers have none."""
    return _EVIDENCE.search(encoded(answer)) is not None


def refusal_tokens(answer: str, question: str) -> Iterator[str]:
    """What the model is told beside the words: opening, length, form, and whether it denies what was presumed."""
    first = _SENTENCE_END.split(answer[:_OPENING_CHARS].strip(), maxsplit=1)[0]
    if _DENIAL.search(first) and not _DENIAL.search(question[:_OPENING_CHARS]):
        yield "denies"
        if _PRESUMES.match(question):
            yield "denies what was presumed"
    if looks_like_refusal(answer):
        yield "opens as refusals do"
    items = len(_LIST.findall(answer[:20_000]))
    if items > 1:
        yield "has a list"
    if _FENCE in answer:
        yield "has code"
    words = answer.count(" ") + 1
    yield "short" if words < _SHORT_WORDS else "long" if words > _LONG_WORDS else "middling"
