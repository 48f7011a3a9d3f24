"""Residue of injections: text that tells a model, or a later reader of the cache, what to do instead."""

import re
from collections.abc import Iterator
from typing import ClassVar

from policies.guardrails.injection_views import injection_tokens
from policies.guardrails.linear import Cuttings, LinearModel, read_model
from policies.guardrails.patterns import compiled, encoded
from policies.guardrails.types import Action, Material, Subject, Verdict

_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069]|(?:[\u200b\u2060\u2061-\u2064\ufeff].{0,3}){3}|[\U000e0001-\U000e007f]"
)
_FLAG_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,7}\U000e007f")
_CONTROL_TOKEN = compiled(
    r"<\|(?:im_start|im_end|system|start_header_id|end_header_id|eot_id|endoftext)\|>|\[/?INST\]|<</?SYS>>"
)
_EVENT_LINE = compiled(r"(?:^|\n)(?:data: ?(?:\{|\[DONE\])|event: ?[\w.]+\n)")
_LINKED_IMAGE = compiled(r"!\[[^\]]{0,200}\]\(\s{0,4}https?://[^)\s]{1,300}[?&#][\w.-]{1,40}=[^)\s]{0,1000}\)")
_ACTIVE_MARKUP = compiled(
    r"<script\b|<iframe\b|<img\b[^>]{0,300}\bonerror\s{0,4}=|javascript:|<meta\b[^>]{0,100}http-equiv"
    r"|<svg\b[^>]{0,100}\bonload"
)
_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]{1,300}`", re.DOTALL)
_LOOKED_AT_CHARS = 20_000


class InjectionGuard:
    """Judges turns by a small model and by signs, and what is stored by what it must not carry."""

    name: ClassVar[str] = "injection"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = "injection.bin"
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action
        self._model: LinearModel = read_model(material.data)

    def check(self, subject: Subject) -> Verdict | None:
        """System texts are the operator's own and are not judged."""
        reason = next(self._reasons(subject), None)
        if reason is not None:
            return Verdict(self.name, reason, self._action, {reason: 1})
        if any(acts(text) for text in subject.answer_texts):
            return Verdict(self.name, "injection_markup", "exact_only", {"injection_markup": 1})
        return None

    def _reasons(self, subject: Subject) -> Iterator[str]:
        for text in subject.turn_texts + subject.answer_texts:
            if hides(text):
                yield "injection_hidden"
        for text in subject.answer_texts:
            if carries(text):
                yield "injection_carried"
        for text in subject.turn_texts:
            if self.suspects(text, subject.cuttings if text == subject.question else None):
                yield "injection"

    def suspects(self, text: str, cuttings: Cuttings | None = None) -> bool:
        """Whether a turn reads like an injection."""
        return self._model.alarms({"text": text}, injection_tokens(text), cuttings)


def hides(text: str) -> bool:
    """Whether it has characters that no reader sees: overrides of direction, runs of zero width, tags."""
    return not text.isascii() and _HIDDEN.search(_FLAG_TAGS.sub("", text)) is not None


def carries(answer: str) -> bool:
    """Whether an answer holds, outside code, control tokens or an image that calls home."""
    said = encoded(_CODE.sub(" ", answer))
    return _CONTROL_TOKEN.search(said) is not None or _LINKED_IMAGE.search(said) is not None


def acts(answer: str) -> bool:
    """Whether it holds, outside code, lines of an event stream or markup that a careless client would run.

    A replay escapes them, and who asks the very same question gets what the model said; but no other question.
    """
    said = encoded(_CODE.sub(" ", answer))
    return _EVENT_LINE.search(said) is not None or _ACTIVE_MARKUP.search(said) is not None
