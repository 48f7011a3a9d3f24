"""Ids to bytes and back, whatever the tokenizer's spelling."""

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models

from engine.detokenizer import OutputText
from engine.errors import ModelError
from engine.loader.gguf_tokenizer import PRE_TOKENIZERS, build_tokenizer
from engine.tokenizer import Tokenizer, byte_alphabet
from tests.engine import tiny
from tests.engine.fakes import byte_tokenizer

TOKENIZER = byte_tokenizer()


@given(st.text(max_size=60))
def test_text_survives_the_round_trip(text: str) -> None:
    ids = TOKENIZER.encode(text)
    if not any(token in text for token in tiny.SPECIALS):
        assert TOKENIZER.decode(ids) == text


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=40))
def test_streamed_pieces_add_up_to_what_the_library_decodes(ids: list[int]) -> None:
    text = OutputText()
    streamed = "".join([*(text.push(TOKENIZER.piece(token_id)) for token_id in ids), text.finish()])
    assert streamed == TOKENIZER.decode(ids) == TOKENIZER.backend.decode(ids, skip_special_tokens=True)


def test_control_tokens_have_a_name_and_no_text() -> None:
    assert (TOKENIZER.piece(tiny.EOS_ID), TOKENIZER.label(tiny.EOS_ID)) == (b"", b"<|im_end|>")
    assert (TOKENIZER.piece(10**6), TOKENIZER.label(10**6)) == (b"", b"")


def test_sentencepiece_spelling() -> None:
    backend = tokenizers.Tokenizer(
        models.BPE({"<s>": 0, "<0xC3>": 1, "<0xA9>": 2, "▁the": 3}, [], byte_fallback=True)
    )
    backend.decoder = decoders.ByteFallback()
    tokenizer = Tokenizer(backend, byte_level=False, specials=frozenset({0}))
    assert tokenizer.decode([0, 3, 1, 2]) == " theé"


def metadata(**changes: object) -> dict[str, object]:
    tokens = [*tiny.SPECIALS, *sorted(byte_alphabet()), "he", "12"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3, *[1] * (len(tokens) - 3)],
        "tokenizer.ggml.merges": ["h e", "1 2"],
    } | {f"tokenizer.ggml.{name}": value for name, value in changes.items()}


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_named_pre_tokenizer_round_trips(pre: str) -> None:
    tokenizer = build_tokenizer(metadata(pre=pre))
    text = "He said: it's 12,345 — né 🙂\n\n  done<|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text.removesuffix("<|im_end|>")
    assert tokenizer.encode(text)[-1] == tiny.EOS_ID


def test_digits_are_split_as_the_name_says() -> None:
    joined = len(metadata()["tokenizer.ggml.tokens"]) - 1
    assert build_tokenizer(metadata(pre="gpt-2")).encode("12") == [joined]
    assert len(build_tokenizer(metadata(pre="smollm")).encode("12")) == 2
    assert build_tokenizer(metadata(pre="llama-bpe")).encode("12") == [joined]
    assert len(build_tokenizer(metadata(pre="qwen2")).encode("12")) == 2


@pytest.mark.parametrize("changes", [{"model": "llama"}, {"pre": "tekken"}])
def test_an_unknown_tokenizer_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ModelError, match=next(iter(changes.values()))):
        build_tokenizer(metadata(**changes))
