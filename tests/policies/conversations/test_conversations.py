"""Conversations without a model: what is equal, what is a detour, what is vetoed, and that nothing breaks it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversations import (
    Told,
    Verdict,
    Weights,
    early_verdict,
    late_verdict,
    parse_wording,
    read_turns,
    read_weights,
    texts_needed,
    unneeded,
)
from policies.conversations.align import align, shared_words
from policies.conversations.alone import stands_alone
from policies.conversations.difference import difference
from policies.conversations.forest import Tree
from policies.questions import Turn
from semantic.conversations import load_weights, load_wording
from semantic.lexicon import load_lexicon

LEXICON = load_lexicon()
WORDING = load_wording()
WEIGHTS = load_weights()

HOTEL: list[Turn] = [
    ("user", "Hello, I have a room at the Hotel Quarrel in Ghent from 4 to 6 June."),
    ("assistant", "Yes, a double room for two nights. Breakfast is 15 euros and parking is 18 euros a night."),
    ("user", "Put parking on, please."),
    ("assistant", "Done. First option is paying now, second option is paying at the desk. Which one?"),
    ("user", "the second one"),
]
CHATTER: list[Turn] = [("user", "Is it raining over there?"), ("assistant", "A little, take an umbrella along!")]


def told(turns: list[Turn]) -> tuple[Told, ...]:
    return read_turns(turns, WORDING, LEXICON)


def same_words(one: str, other: str) -> float:
    """Stands in for the cosine."""
    if one == other:
        return 1.0
    left, right = set(one.lower().split()), set(other.lower().split())
    return len(left & right) / max(1, len(left | right))


def judged(stored: list[Turn], asked: list[Turn]) -> Verdict:
    ours, theirs = told(stored), told(asked)
    early = early_verdict(ours, theirs, WORDING, WEIGHTS)
    return early or late_verdict(ours, theirs, same_words, WORDING, WEIGHTS)


def edited(turns: list[Turn], place: int, old: str, new: str) -> list[Turn]:
    role, text = turns[place]
    assert old in text
    return [*turns[:place], (role, text.replace(old, new)), *turns[place + 1 :]]


def test_a_conversation_is_served_against_itself() -> None:
    assert judged(HOTEL, HOTEL) == Verdict(None, WEIGHTS.courteous)


def test_courtesies_change_nothing() -> None:
    polite = edited(HOTEL, 2, "Put parking on, please.", "Great, thanks! Put parking on.")
    assert judged(HOTEL, polite) == Verdict(None, WEIGHTS.courteous)
    assert (
        judged(HOTEL, [*HOTEL[:2], ("user", "Thanks!"), ("assistant", "You're welcome."), *HOTEL[2:]]).veto is None
    )


@pytest.mark.parametrize(
    ("place", "old", "new", "veto"),
    [
        (1, "18 euros", "81 euros", "conversation_fact"),
        (0, "4 to 6 June", "4 to 7 June", "conversation_fact"),
        (3, "paying now, second option is paying at the desk", "paying at the desk, second option is paying now",
         "conversation_order"),
    ],
)  # fmt: skip
def test_one_exchanged_detail_is_vetoed(place: int, old: str, new: str, veto: str) -> None:
    other = edited(HOTEL, place, old, new)
    assert judged(HOTEL, other).veto == veto
    assert judged(other, HOTEL).veto == veto


def test_a_detour_on_one_side_does_not_change_the_verdict_of_a_swap_and_is_no_veto() -> None:
    longer = [*HOTEL[:2], *CHATTER, *HOTEL[2:]]
    assert judged(HOTEL, longer).veto is None
    assert judged(longer, HOTEL).veto is None
    assert judged(longer, edited(HOTEL, 1, "18 euros", "81 euros")).veto == "conversation_fact"


def test_a_change_of_mind_on_one_side_is_vetoed() -> None:
    change: list[Turn] = [("user", "Actually take parking off again."), ("assistant", "It is removed.")]
    assert judged(HOTEL, [*HOTEL[:3], HOTEL[1], *change, *HOTEL[3:]]).veto is not None
    assert judged(HOTEL, [*HOTEL[:2], *change, *HOTEL[2:]]).veto == "conversation_change"


def test_a_detour_right_before_the_last_turn_is_vetoed() -> None:
    assert judged(HOTEL, [*HOTEL[:4], *CHATTER, HOTEL[4]]).veto == "conversation_turn"


def test_other_conversations_with_the_same_last_turn_are_not_served() -> None:
    gym: list[Turn] = [
        ("user", "My gym is too dear."),
        ("assistant", "Freeze it or cancel it?"),
        ("user", "cancel it"),
    ]
    film: list[Turn] = [
        ("user", "I want out of Lumenflix."),
        ("assistant", "Downgrade or cancel?"),
        ("user", "cancel it"),
    ]
    verdict = judged(gym, film)
    assert verdict.veto is not None or verdict.probability < 0.2


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("What is the weight limit for cabin bags?", True),
        ("How do I print a line in Python?", True),
        ("Unrelated, but is the contact centre open on bank holidays?", True),
        ("What does a stamp to Norway cost?", True),
        ("How much does it cost per year?", False),
        ("and for two people?", False),
        ("so when is the next payment due in May?", False),
        ("how long will the refund take?", False),
        ("is there an early exit fee?", False),
        ("can I bring my dog?", False),
        ("the second one", False),
        ("yes please", False),
    ],
)
def test_which_turns_stand_alone(text: str, alone: bool) -> None:
    assert stands_alone(told([("user", text)])[0], WORDING) is alone


def test_what_was_said_about_answers_bears_on_a_turn_that_stands_alone() -> None:
    last: Turn = ("user", "What does a stamp for a letter to Norway cost?")
    plain = told([("user", "Which wood is best for a bench?"), ("assistant", "Larch."), last])
    ruled = told([("user", "From now on give me all answers in miles."), ("assistant", "Very well."), last])
    assert unneeded(plain, told([last]), WORDING)
    assert not unneeded(plain, ruled, WORDING)


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("No jargon please, my nephew listens.", "Of course."),
        ("We've just moved to Oregon.", "Welcome!"),
        ("My doctor keeps me off sugar.", "Good to know; I'll only name things without it."),
        ("I'm working in feet today.", "Fine, I'll give every length in feet."),
    ],
)
def test_a_wish_or_a_place_bears_on_what_is_asked_later(said: str, reply: str) -> None:
    last: Turn = ("user", "What does a stamp for a letter to Norway cost?")
    ruled = told([("user", said), ("assistant", reply), last])
    assert not unneeded(told([last]), ruled, WORDING)
    asked = told([("user", "Which wood is best?"), ("assistant", "Larch; I'll only add: oil it."), last])
    assert unneeded(told([last]), asked, WORDING), "a reply to a question promises nothing"


def test_code_and_signs_are_compared_to_the_letter() -> None:
    one, other = told([("user", "run print(a - b)"), ("user", "run print(a + b)")])
    assert one.plain != other.plain
    assert told([("user", "x" * 5000 + "1")])[0].plain != told([("user", "x" * 5000 + "2")])[0].plain


TURNS = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=60)), max_size=6)


@given(TURNS, TURNS, st.text(max_size=40), st.text(max_size=40))
def test_nothing_breaks_it_and_order_hardly_matters(
    stored: list[Turn], asked: list[Turn], one: str, other: str
) -> None:
    ours, theirs = told([*stored, ("user", one)]), told([*asked, ("user", other)])
    early = early_verdict(ours, theirs, WORDING, WEIGHTS)
    needed = set(texts_needed(ours, theirs))

    def likeness(left: str, right: str) -> float:
        assert {left, right} <= needed
        return same_words(left, right)

    late = late_verdict(ours, theirs, likeness, WORDING, WEIGHTS)
    assert 0 <= late.probability <= 1
    swapped = early_verdict(theirs, ours, WORDING, WEIGHTS)
    assert (early is None) == (swapped is None)


@given(TURNS, st.text(max_size=40))
def test_every_conversation_is_served_against_itself(turns: list[Turn], last: str) -> None:
    whole = told([*turns, ("user", last)])
    verdict = early_verdict(whole, whole, WORDING, WEIGHTS)
    assert verdict is not None
    assert verdict.veto is None


@given(TURNS, TURNS)
def test_an_alignment_uses_each_turn_once_and_in_order(stored: list[Turn], asked: list[Turn]) -> None:
    ours, theirs = told(stored), told(asked)
    found = align(ours, theirs, same_words)
    pairs = sorted([*found.equal, *found.changed])
    for side, extras, turns in ((0, found.only_stored, ours), (1, found.only_asked, theirs)):
        places = [pair[side] for pair in pairs]
        assert places == sorted(set(places))
        assert sorted([*places, *extras]) == [place for place, one in enumerate(turns) if not one.idle]
    assert all(ours[i].role == theirs[j].role for i, j in pairs)


def test_a_difference_counts_both_sides() -> None:
    one, other = told([("user", "A desk for 120 euros on Friday"), ("user", "A chair for 90 euros on Friday")])
    found = difference(one, other)
    assert found.conflicts[0] == 1
    assert found.swapped
    assert difference(one, one).tight == 0
    assert shared_words(one, one) == 1


def test_two_hundred_turns_take_bounded_time() -> None:
    roles = ("user", "assistant")
    many: list[Turn] = [
        (roles[n % 2], f"Turn {n} speaks of thing {n * 7} and of day {n % 28}.") for n in range(200)
    ]
    other = [(role, text.replace("speaks", "talks")) for role, text in many]
    started = time.perf_counter()
    assert judged([*many, ("user", "the first")], [*other, ("user", "the first")]).veto == "conversation_length"
    near = judged([*many, ("user", "go on")], [*many[:-20], *other[-20:], ("user", "go on")])
    assert 0 <= near.probability <= 1
    assert time.perf_counter() - started < 20


def test_broken_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        Weights(("a",), 0.0, (Tree((0,), (), (), (), ()),), 1.0, 0.0, 0.9, 0.9)
    with pytest.raises(ValueError, match="points"):
        Weights(("a",), 0.0, (Tree((0,), (1.0,), (0,), (0,), (0.0,)),), 1.0, 0.0, 0.9, 0.9)
    with pytest.raises(ValueError, match="Expected"):
        read_weights(b"[")


def test_a_broken_word_list_says_where() -> None:
    with pytest.raises(ValueError, match=r"wording\.txt:2"):
        parse_wording("courtesy: hi\nnonsense")
