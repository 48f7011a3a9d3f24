"""Signals of two conversations whose last turns depend on what was said before: numbers for the combiner."""

from collections.abc import Sequence

from policies.conversations.align import Alignment, Likeness, shared_words
from policies.conversations.difference import KINDS, Difference, difference, fact_counts, facts_of
from policies.conversations.turns import Told
from policies.conversations.wording import Wording

_CAP = 3.0
_TIGHT = 0.6

Signals = dict[str, float]


def context_signals(
    stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment, likeness: Likeness, wording: Wording
) -> Signals:
    """What speaks for and against an equal meaning of two conversations; the same names for every pair.

    Args:
        stored: all turns, the last being the user's.
        asked: likewise.
        alignment: of the turns before the last.
        likeness: cosine of two texts that the alignment compared, of the last turns and of the last replies.
        wording: the closed lists.
    """
    pairs = [(stored[i], asked[j]) for i, j in alignment.changed]
    differences = [difference(one, other) for one, other in pairs]
    return {
        **_last(stored[-1], asked[-1], likeness),
        **_reply(stored, asked, likeness),
        **_shape(stored, asked, alignment),
        **_changed(pairs, differences, likeness),
        **_extras([stored[i] for i in alignment.only_stored], [asked[j] for j in alignment.only_asked],
                  stored, asked, wording),
        **_everywhere(stored, asked, alignment),
    }  # fmt: skip


def _capped(value: float) -> float:
    return min(value, _CAP) / _CAP


def same_turn(one: Told, other: Told) -> bool:
    """Whether two turns say the same in the same words."""
    return one.plain == other.plain if one.plain or other.plain else one.words == other.words


def _last(one: Told, other: Told, likeness: Likeness) -> Signals:
    same = same_turn(one, other)
    apart = difference(one, other)
    return {
        "last_same": float(same),
        "last_like": 1.0 if same else likeness(one.text, other.text),
        "last_shared": 1.0 if same else shared_words(one, other),
        "last_conflict": 0.0 if same else float(any(apart.conflicts)),
        "last_missing": 0.0 if same else _capped(sum(apart.missing) + sum(apart.added)),
        "last_swapped": 0.0 if same else _capped(apart.swapped),
        "last_short": 1 / (1 + min(len(one.facts.content), len(other.facts.content))),
    }


def last_reply(turns: Sequence[Told]) -> Told | None:
    """The assistant's last turn that says something."""
    return next((told for told in reversed(turns[:-1]) if told.role == "assistant" and not told.idle), None)


def _reply(stored: Sequence[Told], asked: Sequence[Told], likeness: Likeness) -> Signals:
    one, other = last_reply(stored), last_reply(asked)
    if one is None or other is None:
        both = one is None and other is None
        return dict.fromkeys(_REPLY, 0.0) | {"reply_same": float(both), "reply_like": float(both)}
    same, apart = one.plain == other.plain, difference(one, other)
    found = (
        float(same),
        1.0 if same else likeness(one.text, other.text),
        0.0 if same else float(any(apart.conflicts)),
        0.0 if same else _capped(apart.swapped),
        0.0 if same else apart.tight,
        0.0 if same else apart.moved,
        float(one.asks != other.asks),
    )
    return dict(zip(_REPLY, found, strict=True))


_REPLY = (
    "reply_same",
    "reply_like",
    "reply_conflict",
    "reply_swapped",
    "reply_tight",
    "reply_moved",
    "reply_asks",
)


def _shape(stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment) -> Signals:
    ours = sum(not told.idle for told in stored[:-1])
    theirs = sum(not told.idle for told in asked[:-1])
    fewer = max(1, min(ours, theirs))
    lost, gained = len(alignment.only_stored), len(alignment.only_asked)
    return {
        "equal_share": len(alignment.equal) / fewer,
        "paired_share": (len(alignment.equal) + len(alignment.changed)) / fewer,
        "all_equal": float(not (alignment.changed or lost or gained)),
        "changed": _capped(len(alignment.changed) / 2),
        "extra_both": _capped(min(lost, gained)),
        "extra_one": _capped(max(lost, gained) / 2),
    }


def _changed(pairs: list[tuple[Told, Told]], differences: list[Difference], likeness: Likeness) -> Signals:
    likes = [likeness(one.text, other.text) for one, other in pairs] or [1.0]
    shared = [shared_words(one, other) for one, other in pairs] or [1.0]
    found = {
        "pair_least": min(likes),
        "pair_mean": sum(likes) / len(likes),
        "pair_shared_least": min(shared),
        "pair_shared_mean": sum(shared) / len(shared),
        "pair_swapped": _capped(max((apart.swapped for apart in differences), default=0)),
        "pair_tight": max((apart.tight for apart in differences), default=0.0),
        "pair_tight_swap": float(any(apart.tight > _TIGHT for apart in differences)),
        "pair_moved": max((apart.moved for apart in differences), default=0.0),
        "pair_asks": float(any(one.asks != other.asks for one, other in pairs)),
        "pair_negation": float(any((one.facts.negations - other.facts.negations) % 2 for one, other in pairs)),
        "pair_pure": sum(not apart.lost or not apart.gained for apart in differences) / max(1, len(pairs)),
    }
    for place, kind in enumerate(KINDS):
        found[f"pair_{kind}"] = float(any(apart.conflicts[place] for apart in differences))
        found[f"pair_{kind}_one"] = _capped(
            max((max(apart.missing[place], apart.added[place]) for apart in differences), default=0)
        )
    return found


def _extras(
    lost: list[Told], gained: list[Told], stored: Sequence[Told], asked: Sequence[Told], wording: Wording
) -> Signals:
    extras = lost + gained
    said = [told for told in extras if told.role == "user"]
    last = {*stored[-1].facts.content, *asked[-1].facts.content}
    return {
        "extra_change": float(any(wording.change.count(told.words) for told in said)),
        "extra_self": float(any(wording.self.count(told.words) for told in said)),
        "extra_bearing": float(any(wording.bearing.count(told.words) for told in said)),
        "extra_numbers": float(any(facts_of([told.facts])[0] for told in extras)),
        "extra_about_last": float(any(last & set(told.facts.content) for told in extras)),
    }


def _everywhere(stored: Sequence[Told], asked: Sequence[Told], alignment: Alignment) -> Signals:
    """Facts of differing turns that occur nowhere in the other conversation."""
    whole = facts_of(told.facts for told in stored), facts_of(told.facts for told in asked)
    ours = {*(i for i, _ in alignment.changed), *alignment.only_stored}
    theirs = {*(j for _, j in alignment.changed), *alignment.only_asked}
    missing, _ = fact_counts(facts_of(stored[i].facts for i in ours), whole[1])
    added, _ = fact_counts(facts_of(asked[j].facts for j in theirs), whole[0])
    found: Signals = {}
    for kind, one, other in zip(KINDS, missing, added, strict=True):
        found[f"all_{kind}"] = _capped(min(one, other))
        found[f"all_{kind}_one"] = _capped(max(one, other))
    return found
