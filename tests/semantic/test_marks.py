"""Marks: which word a token belongs to, on both sides of a pair alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantic.marks import FLAGS, mark, stem
from semantic.models.folder import packaged_embedder
from semantic.models.tokens import TextEncoder


@pytest.mark.parametrize(
    ("one", "other"), [("Prices", "price"), ("opening", "opens"), ("charged", "charge"), ("monthly", "month")]
)
def test_endings_do_not_make_another_word(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(("one", "other"), [("gas", "ga"), ("bus", "bu"), ("red", "r")])
def test_short_words_keep_their_endings(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_pieces_of_one_word_share_its_stem_and_rarity() -> None:
    text = "Isotretinoin costs 15 dollars"
    encoder = TextEncoder.load(packaged_embedder() / "tokenizer.json")
    tokens = encoder.tokenise([text], placed=True)[0]
    marks = mark(text, tokens.ids, tokens.offsets)
    drug = [place for place, found in enumerate(marks.stems) if found == stem("isotretinoin")]
    assert len(drug) > 1
    assert len({float(marks.flags[place, 3]) for place in drug}) == 1
    assert marks.flags[marks.stems.index("15"), 1] == 1
    assert (marks.stems[0], marks.flags[0, 0]) == ("", 1)


@given(st.text(max_size=200))
def test_any_text_can_be_marked(text: str) -> None:
    offsets = [(0, 0), *((place, place + 1) for place in range(len(text)))]
    marks = mark(text, [101] + [3000] * len(text), offsets)
    assert marks.flags.shape == (len(text) + 1, FLAGS)
    assert np.isfinite(marks.flags).all()
