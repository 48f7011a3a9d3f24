"""Two last turns that stand alone, so that the histories before them do not matter."""

import itertools
from collections.abc import Sequence

from policies.conversations.difference import facts_of
from policies.conversations.turns import Told
from policies.conversations.wording import Wording

_FEW_WORDS = 4
_FEW_CONTENT = 2
_MOST_MENTIONED = 0.5
_LINKS = frozenset({"so", "then", "and", "but", "or", "also", "too"})
_CLOSED = frozenset(
    {"is", "are", "was", "were", "do", "does", "did", "can", "could", "will", "would", "should", "may", "might",
     "must", "has", "have", "had", "take", "takes", "cost", "costs", "a", "an", "and", "or", "if", "when", "at",
     "by", "on", "in", "with", "i", "you", "we", "they", "it", "be", "been", "get", "go"}
)  # fmt: skip
_COMPLEMENT = frozenset({"of", "for", "from", "to", "between", "about", "when", "that", "on", "in"})
_NARROWING = _COMPLEMENT | {"with", "at", "by", "without", "each", "per", "during", "every", "between", "against"}
_ADDRESSED = frozenset({"you", "your", "yours"})


def stands_alone(last: Told, wording: Wording) -> bool:
    """Whether a turn is a whole question by its own words: nothing points back, and it names its subject."""
    words = wording.idiom.without(last.plain)
    if len(last.plain) < _FEW_WORDS or len(last.facts.content) < _FEW_CONTENT:
        return False
    shifted = wording.shift.count(last.words) > 0
    if not shifted and (wording.opening.at(last.plain, 0) or _LINKS & set(_lead(last))):
        return False
    if wording.pointing.count(words) or _bare_definite(last.words):
        return False
    if not last.facts.names and (_personal(last, wording) or not _narrowed(last.words)):
        return False
    return bool(wording.asking.count(last.plain))


def depends(stored: Sequence[Told], asked: Sequence[Told], wording: Wording) -> bool:
    """Whether the earlier turns of either conversation bear on its last turn after all."""
    addressed = bool(_ADDRESSED & set(asked[-1].words)) and not asked[-1].facts.names
    ours, theirs = (facts_of(told.facts for told in turns[:-1])[3] for turns in (stored, asked))
    if addressed and ours and theirs and not ours & theirs:
        return True
    return any(_bears(turns, wording) for turns in (stored, asked))


def _bears(turns: Sequence[Told], wording: Wording) -> bool:
    said = [told for told in turns[:-1] if told.role == "user"]
    if any(_orders(told, wording) for told in said if not told.asks) or _promised(turns, wording):
        return True
    if wording.advice.count(turns[-1].words) and any(wording.bearing.count(told.words) for told in said):
        return True
    if _personal(turns[-1], wording) and any(wording.self.count(told.words) for told in said if not told.asks):
        return True
    return mentioned(turns) > _MOST_MENTIONED


def _orders(told: Told, wording: Wording) -> bool:
    """Whether a turn says how to answer, or where the speaker is: `no jargon please`, `I've moved to Texas`."""
    return wording.order.count(told.words) > 0 or (told.words[:1] == ("no",) and "please" in told.words)


def _promised(turns: Sequence[Told], wording: Wording) -> bool:
    """Whether a reply takes to heart what the user said rather than asked."""
    exchanges = itertools.pairwise(turns)
    return any(
        said.role == "user" and not said.asks and reply.role == "assistant" and wording.promise.count(reply.words)
        for said, reply in exchanges
    )


def _personal(last: Told, wording: Wording) -> bool:
    return wording.person.count(wording.idiom.without(last.words)) > 0


def _lead(last: Told) -> tuple[str, ...]:
    """The words before the first that carries something."""
    first = next((place for place, word in enumerate(last.words) if word == last.plain[0]), 0)
    return last.words[: first + 1]


def _bare_definite(words: Sequence[str]) -> bool:
    """Whether some `the` has a single noun and no complement, as in `how long will the refund take`."""
    for place, word in enumerate(words):
        if word != "the":
            continue
        tail = list(words[place + 1 :])
        length = next((k for k, other in enumerate(tail) if other in _CLOSED | _COMPLEMENT), len(tail))
        if length <= 1 and (len(tail) <= length or tail[length] not in _COMPLEMENT):
            return True
    return False


def _narrowed(words: Sequence[str]) -> bool:
    """Whether something behind the question's noun says which is meant, such as `for cabin bags`."""
    return any(word in _NARROWING for word in words[3:-1])


def mentioned(turns: Sequence[Told]) -> float:
    """Share of the last turn's content words that the turns before it hold, 0 to 1; names are not counted."""
    words = [word for word in turns[-1].facts.content if word not in turns[-1].facts.names]
    before = {word for told in turns[:-1] for word in told.facts.content}
    return sum(word in before for word in words) / len(words) if words else 1.0
