"""Whether two answers to one question say the same: by rules where these can tell, else by the verifier."""

from typing import Protocol

from gateway.errors import SemanticUnavailable
from policies.answers import same_answer
from policies.gate import refuse_write
from policies.nomination import Pairs, Verdicts
from policies.semantic import is_plain
from policies.types import ChatResponse

_DEADLINE_S = 2.0
_EVEN = 0.5
_FAULT = "fault"
"""The service's word for a pair that its rules or its verifier failed on: that says nothing of the answers."""
_MAX_CHARS = 8_000


class Verifier(Protocol):
    """Judges whether texts say the same; may raise SemanticUnavailable."""

    async def verify(self, pairs: Pairs, deadline_s: float) -> Verdicts:
        """One verdict per pair."""
        ...


async def compared(verifier: Verifier, stored: ChatResponse, fresh: ChatResponse) -> tuple[str, bool | None]:
    """By what the answers were judged, and whether they say the same; None when nobody can tell."""
    if not is_plain(stored) or not is_plain(fresh) or refuse_write(fresh, {}) is not None:
        return "form", None
    one, other = _text(stored), _text(fresh)
    same = same_answer(one, other)
    if same is not None:
        return "rules", same
    pairs = Pairs(((one[:_MAX_CHARS], other[:_MAX_CHARS]),), "answers")
    try:
        verdict, probability = (await verifier.verify(pairs, _DEADLINE_S)).verdicts[0]
    except SemanticUnavailable:
        return "verifier", None
    if verdict == _FAULT:
        return "verifier", None
    return "verifier", verdict is None and probability >= _EVEN


def _text(response: ChatResponse) -> str:
    return str(response.choices[0].message.get("content") or "")
