"""Properties of reading and comparing, for any text."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.vetoes import Lexicon, compare, explain, read
from semantic.lexicon import load_lexicon

PIECES = """
how when where much do does I you my cancel pause open closed not can't without 3 40 two half an hour $20 10GB 5pm
March 2024-03-03 Saturday London Paris from to into `x_y` E1042 "so" https://a.example the a, and. ? 1/2 3rd of my
wife's increase decrease all only 12,50 v1.2 3.11 :: ' _ ( ) -- -> 2h15 may ww2 ps5 \u2019 can\u2019t
"""
WORDS = st.sampled_from(PIECES.split())
HOSTILE = [
    "a", "1", "1,", "a.", "a@", "a_", "/a", '"', "`", "'a ", "not ", "from a to ", "$", "two hundred and ", "a b ",
           "1/", "1-", "\u201c", "\u00bd", "\u5b57", "e\u0301", "\ud800"]  # fmt: skip
SENTENCES = st.lists(WORDS, max_size=25).map(" ".join)
ANY = st.one_of(st.text(max_size=300), SENTENCES)
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150, derandomize=True)
FAR_TOO_LONG_S = 1.0


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


@QUIET
@given(text=ANY)
def test_a_text_is_never_vetoed_against_itself(lexicon: Lexicon, text: str) -> None:
    assert explain(text, text, lexicon) == []


@QUIET
@given(one=ANY, other=ANY)
def test_whether_a_pair_is_vetoed_does_not_depend_on_its_order(lexicon: Lexicon, one: str, other: str) -> None:
    forth = [name for name, _ in explain(one, other, lexicon)]
    assert forth == [name for name, _ in explain(other, one, lexicon)]


@QUIET
@given(one=ANY, other=ANY)
def test_the_explanation_begins_with_the_reason(lexicon: Lexicon, one: str, other: str) -> None:
    names = [name for name, _ in explain(one, other, lexicon)]
    assert compare(read(one, lexicon), read(other, lexicon)) == (names[0] if names else None)


@QUIET
@given(words=st.lists(WORDS, max_size=20), gap=st.sampled_from(["  ", "\t", " \u00a0"]))
def test_blanks_do_not_matter(lexicon: Lexicon, words: list[str], gap: str) -> None:
    plain, spaced = " ".join(words), f" {gap.join(words)} "
    assert compare(read(plain, lexicon), read(spaced, lexicon)) is None


@pytest.mark.parametrize(
    "text",
    [
        "How do I renew my driving licence online?",
        "is a return ticket to leeds cheaper than two singles?",
        "Why can't my dog eat chocolate?",
    ],
)
def test_capitals_and_the_last_stop_do_not_matter(lexicon: Lexicon, text: str) -> None:
    facts = read(text, lexicon)
    for written in (text.lower(), text.upper(), text.rstrip("?"), f"{text}??", text.replace("'", "\u2019")):
        assert compare(facts, read(written, lexicon)) is None


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_read_in_bounded_time(lexicon: Lexicon, piece: str) -> None:
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    facts = read(text, lexicon)
    assert compare(facts, facts) is None
    assert time.process_time() - started < FAR_TOO_LONG_S


def test_what_is_too_long_to_be_read_must_be_equal(lexicon: Lexicon) -> None:
    text = "word " * 4000
    other = f"{text[:10_000]}x{text[10_001:]}"
    assert compare(read(text, lexicon), read(text, lexicon)) is None
    assert compare(read(text, lexicon), read(other, lexicon)) == "unread"
