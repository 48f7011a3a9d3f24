"""Tokenising: pairs, padding, truncation that is told, and text that no tokenizer takes."""

from pathlib import Path

import pytest

from semantic.errors import ModelError
from semantic.models.folder import packaged_embedder
from semantic.models.tokens import MAX_CHARS, TextEncoder


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder.load(packaged_embedder() / "tokenizer.json", 16)


def test_a_batch_is_padded_to_its_longest(encoder: TextEncoder) -> None:
    tokens = encoder.encode(["one", "one two three"])
    assert tokens.ids.shape == (2, 5)
    assert tokens.mask.tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert tokens.ids[0, 3:].tolist() == [0, 0]
    assert not tokens.types.any()


def test_the_second_text_of_a_pair_has_another_type(encoder: TextEncoder) -> None:
    tokens = encoder.encode_pairs([("one", "two three")])
    assert tokens.types.tolist() == [[0, 0, 0, 1, 1, 1]]


def test_what_is_cut_off_is_told(encoder: TextEncoder) -> None:
    assert encoder.encode(["one " * 14, "one " * 15]).truncated.tolist() == [False, True]
    assert encoder.encode_pairs([("a " * 6, "b " * 7), ("a " * 7, "b " * 7)]).truncated.tolist() == [False, True]
    assert encoder.encode([" " * MAX_CHARS + "one"]).truncated.tolist() == [True]


def test_lone_surrogates_and_nothing_at_all_are_tokenised(encoder: TextEncoder) -> None:
    assert encoder.encode(["\ud800", "", "\x00"]).ids.shape[0] == 3
    assert encoder.encode([]).ids.shape == (0, 0)


def test_a_broken_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        TextEncoder.load(tmp_path / "tokenizer.json")
