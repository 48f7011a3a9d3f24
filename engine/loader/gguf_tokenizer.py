"""Byte-level BPE from GGUF metadata; the pre-tokenizer is chosen by the name the file gives."""

from collections.abc import Callable, Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from engine.errors import ModelError
from engine.tokenizer import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _split(numbers: str) -> pre_tokenizers.PreTokenizer:
    pattern = Regex(f"{_CONTRACTIONS}|{_WORDS}|{numbers}|{_REST}")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, behavior="isolated"), bytes_only])


def _llama3() -> pre_tokenizers.PreTokenizer:
    return _split(r"\p{N}{1,3}")


def _qwen2() -> pre_tokenizers.PreTokenizer:
    return _split(r"\p{N}")


PRE_TOKENIZERS: Mapping[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "gpt-2": _gpt2,
    "smollm": _smollm,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
    "qwen2": _qwen2,
}
_WHOLE_WORDS_FIRST = frozenset({"llama-bpe", "llama3", "llama-v3"})
_NFC = frozenset({"qwen2"})


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Build the tokenizer a GGUF file describes.

    Raises:
        ModelError: the tokenizer is not byte-level BPE, or its pre-tokenizer is unknown here.
    """
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2":
        raise ModelError(f"the GGUF tokenizer is {kind!r}; only byte-level BPE ('gpt2') is supported")
    if pre not in PRE_TOKENIZERS:
        raise ModelError(f"the GGUF pre-tokenizer {pre!r} is unknown; known: {', '.join(PRE_TOKENIZERS)}")
    try:
        tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        pairs = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
        kinds: list[int] = metadata["tokenizer.ggml.token_type"]
    except KeyError as error:
        raise ModelError(f"the GGUF file lacks {error}") from error
    backend = tokenizers.Tokenizer(
        models.BPE({token: i for i, token in enumerate(tokens)}, pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    )
    backend.pre_tokenizer = PRE_TOKENIZERS[pre]()
    backend.decoder = decoders.ByteLevel()
    if pre in _NFC:
        backend.normalizer = normalizers.NFC()
    controls = [i for i, kind in enumerate(kinds) if kind == _CONTROL]
    backend.add_special_tokens([AddedToken(tokens[i], normalized=False, special=True) for i in controls])
    extra = [tokens[i] for i, kind in enumerate(kinds) if kind == _USER_DEFINED]
    backend.add_tokens([AddedToken(token, normalized=False) for token in extra])
    return Tokenizer(backend, byte_level=True, specials=frozenset(controls))
