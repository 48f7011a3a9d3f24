"""The verdict on two conversations: a rule that speaks against one answer for both, or the probability of one."""

from collections.abc import Sequence

import msgspec

from policies.conversations.align import Alignment, Gap, Likeness, align, anchors
from policies.conversations.alone import depends, stands_alone
from policies.conversations.context import Signals, context_signals, last_reply, same_turn
from policies.conversations.difference import difference
from policies.conversations.forest import Weights
from policies.conversations.turns import Told
from policies.conversations.wording import Wording

MOST_DIFFERING_TURNS = 30
"""On one side; conversations that differ in more are not compared, which bounds the work."""

_TIGHT = 0.6
_MOVED = 0.15
_LEAST_PAIRED = 0.5
_FACTS = 3
"""The first kinds of fact: numbers, dates, codes."""


class Verdict(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        veto: the rule that speaks against one answer, or None.
        probability: that the answers are equal, 0 to 1; 0 with a veto.
        how: `alone` when only the last turns counted, `context` when the histories were compared.
    """

    veto: str | None
    probability: float
    how: str = "context"


def unneeded(stored: Sequence[Told], asked: Sequence[Told], wording: Wording) -> bool:
    """Whether both last turns stand alone and nothing said before bears on them."""
    alone = stands_alone(stored[-1], wording) and stands_alone(asked[-1], wording)
    return alone and not depends(stored, asked, wording)


def early_verdict(
    stored: Sequence[Told], asked: Sequence[Told], wording: Wording, weights: Weights
) -> Verdict | None:
    """The verdict where it needs no likeness; None where it does."""
    same = same_turn(stored[-1], asked[-1])
    if unneeded(stored, asked, wording) and same:
        return Verdict(None, weights.alone, "alone")
    equal, gaps = anchors(stored[:-1], asked[:-1])
    lost, gained = (sum(map(len, side)) for side in (_stored(gaps), _asked(gaps)))
    if same and not lost and not gained:
        return Verdict(None, weights.courteous)
    if max(lost, gained) > MOST_DIFFERING_TURNS:
        return Verdict("conversation_length", 0.0)
    if _order_differs(stored, asked, wording):
        return Verdict("conversation_order", 0.0)
    if not equal and (not lost or not gained):
        return Verdict("conversation_turn", 0.0)
    if _facts_differ(stored, asked, align(stored[:-1], asked[:-1], _unlike)):
        return Verdict("conversation_fact", 0.0)
    return None


def texts_needed(stored: Sequence[Told], asked: Sequence[Told]) -> list[str]:
    """The texts whose likeness `late_verdict` may ask for."""
    _, gaps = anchors(stored[:-1], asked[:-1])
    both = [gap for gap in gaps if gap.stored and gap.asked]
    needed = [stored[i] for gap in both for i in gap.stored] + [asked[j] for gap in both for j in gap.asked]
    one, other = last_reply(stored), last_reply(asked)
    if one is not None and other is not None and one.plain != other.plain:
        needed += [one, other]
    if not same_turn(stored[-1], asked[-1]):
        needed += [stored[-1], asked[-1]]
    return [told.text for told in needed]


def late_verdict(
    stored: Sequence[Told], asked: Sequence[Told], likeness: Likeness, wording: Wording, weights: Weights
) -> Verdict:
    """The verdict where `early_verdict` gave none."""
    alignment = align(stored[:-1], asked[:-1], likeness)
    signals = context_signals(stored, asked, alignment, likeness, wording)
    veto = _veto(stored, asked, alignment, signals, wording)
    return Verdict(veto, 0.0) if veto else Verdict(None, weights.probability(signals))


def _stored(gaps: Sequence[Gap]) -> list[tuple[int, ...]]:
    return [gap.stored for gap in gaps]


def _asked(gaps: Sequence[Gap]) -> list[tuple[int, ...]]:
    return [gap.asked for gap in gaps]


def _veto(
    stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment, signals: Signals, wording: Wording
) -> str | None:
    if _facts_differ(stored, asked, alignment):
        return "conversation_fact"
    if signals["paired_share"] < _LEAST_PAIRED:
        return "conversation_turn"
    if not alignment.changed and not signals["extra_both"]:
        return _detour_veto(stored, asked, alignment, signals, wording)
    return None


def _unlike(_one: str, _other: str) -> float:
    """Stands for the cosine where common words alone align turns."""
    return -1.0


def _facts_differ(stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment) -> bool:
    """Whether facts stand against each other in turns that are else nearly the same."""
    apart = (difference(stored[i], asked[j]) for i, j in alignment.changed)
    return any(one.tight > _TIGHT and any(one.conflicts[:_FACTS]) for one in apart)


def _detour_veto(
    stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment, signals: Signals, wording: Wording
) -> str | None:
    """Against a detour on one side that changes what is talked about, or comes right before the last turn."""
    extras = [stored[i] for i in alignment.only_stored] + [asked[j] for j in alignment.only_asked]
    if extras and not signals["reply_same"]:
        return "conversation_turn"
    said = [told for told in extras if told.role == "user"]
    if any(wording.change.count(told.words) or wording.order.count(told.words) for told in said):
        return "conversation_change"
    return None


def _order_differs(stored: Sequence[Told], asked: Sequence[Told], wording: Wording) -> bool:
    """Whether the last turn picks by place from a list that stands in another order."""
    one, other = last_reply(stored), last_reply(asked)
    picks = any(wording.picking.count(turns[-1].words) for turns in (stored, asked))
    return bool(picks and one and other and one.plain != other.plain and difference(one, other).moved > _MOVED)
