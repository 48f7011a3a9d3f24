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


def sentencepiece(**changes: object) -> dict[str, object]:
    """A small vocabulary with scores, all bytes, and words that can be joined in more than one way."""
    words = ["▁", "a", "b", "c", "ab", "bc", "abc", "▁a", "é"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words, "  ", "<turn>"]
    scores = {"bc": -1.0, "ab": -2.0, "abc": -3.0, "▁a": -0.5}
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [scores.get(token, -9.0) for token in tokens],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(words), 4, 3],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
    } | {f"tokenizer.ggml.{name}": value for name, value in changes.items()}


def spelt(tokenizer: Tokenizer, text: str) -> list[str | None]:
    return [tokenizer.backend.id_to_token(token_id) for token_id in tokenizer.encode(text)]


def test_the_best_scored_neighbours_are_joined_first() -> None:
    tokenizer = build_tokenizer(sentencepiece(add_space_prefix=False))
    assert spelt(tokenizer, "abc") == ["abc"]
    assert spelt(tokenizer, "ab c") == ["ab", "▁", "c"]
    assert spelt(tokenizer, " abc") == ["▁a", "bc"]
    assert spelt(tokenizer, "b  c<turn>") == ["b", "  ", "c", "<turn>"]


def test_a_space_is_put_in_front_where_the_file_wants_it() -> None:
    assert spelt(build_tokenizer(sentencepiece()), "abc") == ["▁a", "bc"]


def test_what_nothing_spells_falls_back_to_bytes() -> None:
    tokenizer = build_tokenizer(sentencepiece(add_space_prefix=False))
    assert spelt(tokenizer, "éñ") == ["é", "<0xC3>", "<0xB1>"]
    assert tokenizer.decode(tokenizer.encode("éñ 🙂 abc")) == "éñ 🙂 abc"


@given(st.text(alphabet="abc é\nñ", max_size=40))
def test_scored_text_survives_the_round_trip(text: str) -> None:
    tokenizer = SCORED
    assert tokenizer.decode(tokenizer.encode(text)) == text


SCORED = build_tokenizer(sentencepiece(add_space_prefix=False))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (sentencepiece(), [1]),
        (sentencepiece(add_bos_token=False), []),
        (metadata(bos_token_id=1), []),
        (metadata(bos_token_id=1, add_bos_token=True), [1]),
        (metadata(bos_token_id=1, pre="llama-bpe"), [1]),
    ],
)
def test_a_whole_text_begins_with_one_begin_token_at_most(found: dict[str, object], expected: list[int]) -> None:
    """vllm#5278, llama-cpp-python#1439: never two, and none where the model wants none."""
    tokenizer = build_tokenizer(found)
    plain = tokenizer.encode("abc")
    assert tokenizer.encode_whole("abc") == [*expected, *plain]
    begin = tokenizer.backend.id_to_token(1) or ""
    assert tokenizer.encode_whole(f"{begin}abc") == [1, *plain]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["It", "'s", "ĠHE", "'", "RE", "Ġ2026", ":", "ĠĠ", "Ġend", "Ċ", "Ċ", "ok", "?!"]),
        (
            "smollm",
            ["It", "'s", "ĠHE", "'", "RE", "Ġ", "2", "0", "2", "6", ":", "ĠĠ", "Ġend", "Ċ", "Ċ", "ok", "?!"],
        ),
        ("llama-bpe", ["It", "'s", "ĠHE", "'RE", "Ġ", "202", "6", ":", "ĠĠ", "Ġend", "ĊĊ", "ok", "?!"]),
        ("qwen2", ["It", "'s", "ĠHE", "'RE", "Ġ", "2", "0", "2", "6", ":", "ĠĠ", "Ġend", "ĊĊ", "ok", "?!"]),
    ],
)
def test_text_is_cut_as_the_families_cut_it(pre: str, expected: list[str]) -> None:
    found = PRE_TOKENIZERS[pre]().pre_tokenize_str("It's HE'RE 2026:   end\n\nok?!")
    assert [piece for piece, _ in found] == expected


@pytest.mark.parametrize(
    "changes",
    [{"merges": ["h zz"]}, {"merges": [5]}, {"merges": ["he"]}, {"token_type": [3] * 900}, {"tokens": 5}],
)
def test_a_broken_tokenizer_is_one_clear_line(changes: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="the GGUF tokenizer is broken"):
        build_tokenizer(metadata(**changes))


def test_scores_must_fit_the_tokens() -> None:
    with pytest.raises(ModelError, match="the GGUF tokenizer is broken"):
        build_tokenizer(sentencepiece(scores=[0.0]))


@pytest.mark.parametrize("changes", [{"model": "t5"}, {"pre": "tekken"}])
def test_an_unknown_tokenizer_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ModelError, match=next(iter(changes.values()))):
        build_tokenizer(metadata(**changes))
