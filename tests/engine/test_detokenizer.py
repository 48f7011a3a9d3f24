"""Text comes out whole, once, and never too early."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.detokenizer import OutputText


def stream(pieces: list[bytes], stop: tuple[str, ...] = ()) -> list[str]:
    text = OutputText(stop)
    return [*(text.push(piece) for piece in pieces), text.finish()]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def reference(text: str, stop: tuple[str, ...]) -> str:
    """One character at a time: the first stop string to be complete cuts the text; of two at once, the longer."""
    for end in range(len(text) + 1):
        done = [one for one in stop if text[:end].endswith(one)]
        if done:
            return text[: end - max(map(len, done))]
    return text


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_streamed_text_is_the_decoded_whole(data: bytes, places: list[int]) -> None:
    """vllm#17448: however characters are cut into tokens."""
    assert "".join(stream(cut(data, places))) == data.decode("utf-8", errors="replace")


@given(
    st.text(alphabet="abé🙂", max_size=30),
    st.lists(st.text(alphabet="abé🙂", min_size=1, max_size=4), max_size=3).map(tuple),
    st.lists(st.integers(0, 60)),
)
def test_stop_strings_cut_the_same_place_whatever_the_token_borders(
    text: str, stop: tuple[str, ...], places: list[int]
) -> None:
    assert "".join(stream(cut(text.encode(), places), stop)) == reference(text, stop)


@given(st.text(alphabet="ab", max_size=20), st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=3))
def test_only_a_proper_prefix_of_a_stop_string_is_held_back(text: str, stop: list[str]) -> None:
    """vllm#3574: no stop text leaks, and no more waits than must."""
    shown = OutputText(stop)
    said = "".join(shown.push(one.encode()) for one in text)
    if not shown.stopped:
        held = text[len(said) :]
        assert text.startswith(said)
        assert not held or any(one.startswith(held) and one != held for one in stop)


def test_a_character_split_over_tokens_appears_when_complete() -> None:
    assert stream([b"\xf0\x9f", b"\x99", b"\x82!"]) == ["", "", "🙂!", ""]


def test_an_unfinished_character_is_flushed_at_the_end() -> None:
    assert stream([b"a\xe2\x82"]) == ["a", "\ufffd"]


def test_an_answer_that_starts_inside_a_character_shows_nothing_of_the_prompt() -> None:
    """vllm#48853."""
    assert stream([b"\x82", b"ok"]) == ["\ufffd", "ok", ""]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"one EN", b"D two"], ["one ", "", ""]),
        ([b"one EN", b"C two"], ["one ", "ENC two", ""]),
        ([b"one EN"], ["one ", "EN"]),
        ([b"END"], ["", ""]),
        ([b"E", b"N", b"D", b"more"], ["", "", "", "", ""]),
    ],
)
def test_stop_text_is_cut_exactly_and_flushed_when_it_never_comes(pieces: list[bytes], shown: list[str]) -> None:
    assert stream(pieces, ("END",)) == shown


def test_of_two_stop_strings_the_one_complete_first_wins() -> None:
    assert "".join(stream([b"xabcd"], ("abcd", "bc"))) == "xa"
