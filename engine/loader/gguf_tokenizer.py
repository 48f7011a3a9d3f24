"""Tokenizers from GGUF metadata; the pre-tokenizer of byte-level BPE is chosen by the name the file gives."""

from collections.abc import Callable, Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from engine.errors import ModelError
from engine.loader.gguf_sentencepiece import Vocabulary, sentencepiece_backend
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
_LLAMA3 = frozenset({"llama-bpe", "llama3", "llama-v3"})
"""Whole words are looked up before pairs are joined; texts begin with a begin token unless the file says no."""
_NFC = frozenset({"qwen2"})


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Build the tokenizer a GGUF file describes.

    Raises:
        ModelError: the tokenizer is of an unknown kind, or its pre-tokenizer is unknown here.
    """
    kind = str(metadata.get("tokenizer.ggml.model"))
    if kind not in _BACKENDS:
        raise ModelError(f"the GGUF tokenizer {kind!r} is not supported; known: {', '.join(_BACKENDS)}")
    try:
        return _tokenizer(kind, metadata)
    except KeyError as error:
        raise ModelError(f"the GGUF file lacks {error}") from error
    except ModelError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"the GGUF tokenizer is broken: {error}") from error


def _tokenizer(kind: str, metadata: Mapping[str, Any]) -> Tokenizer:
    backend = _BACKENDS[kind](metadata)
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    controls = [i for i, kind in enumerate(kinds) if kind == _CONTROL]
    backend.add_special_tokens([AddedToken(tokens[i], normalized=False, special=True) for i in controls])
    extra = [tokens[i] for i, kind in enumerate(kinds) if kind == _USER_DEFINED]
    backend.add_tokens([AddedToken(token, normalized=False) for token in extra])
    begins = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama" or _pre(metadata) in _LLAMA3)
    return Tokenizer(
        backend,
        byte_level=kind == "gpt2",
        specials=frozenset(controls),
        bos_id=metadata.get("tokenizer.ggml.bos_token_id") if begins else None,
    )


def _pre(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("tokenizer.ggml.pre", "gpt-2"))


def _byte_level(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    pre = _pre(metadata)
    if pre not in PRE_TOKENIZERS:
        raise ModelError(f"the GGUF pre-tokenizer {pre!r} is unknown; known: {', '.join(PRE_TOKENIZERS)}")
    tokens = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    pairs = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    backend = tokenizers.Tokenizer(models.BPE(tokens, pairs, ignore_merges=pre in _LLAMA3))
    backend.pre_tokenizer = PRE_TOKENIZERS[pre]()
    backend.decoder = decoders.ByteLevel()
    if pre in _NFC:
        backend.normalizer = normalizers.NFC()
    return backend


def _sentencepiece(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    tokens, unknown = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.unknown_token_id")
    return sentencepiece_backend(
        Vocabulary(
            tokens=tokens,
            kinds=metadata["tokenizer.ggml.token_type"],
            scores=metadata["tokenizer.ggml.scores"],
            unknown=None if unknown is None else tokens[unknown],
            space_prefix=metadata.get("tokenizer.ggml.add_space_prefix", True),
        )
    )


_BACKENDS: Mapping[str, Callable[[Mapping[str, Any]], tokenizers.Tokenizer]] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
}
"""By `tokenizer.ggml.model`."""
