"""Texts as token ids, padded to the longest of a batch.

B texts of a batch, S tokens of the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from tokenizers import Encoding, Tokenizer

from semantic.errors import ModelError

MAX_CHARS = 16_384
"""What lies behind is cut off before tokenising, and counts as truncated."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A batch as an encoder takes it.

    Attributes:
        ids: int32 [B, S].
        mask: int32 [B, S], 1 for a token and 0 for padding, which is on the right.
        types: int32 [B, S], 1 for the second text of a pair.
        truncated: bool [B], whether a part of the text was left out.
    """

    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray
    truncated: np.ndarray

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """By the names of the graph's inputs."""
        return {"input_ids": self.ids, "attention_mask": self.mask, "token_type_ids": self.types}


@dataclass(frozen=True, slots=True)
class Tokenised:
    """One text: its ids, the types, where each token stands in the text, and whether a part was left out."""

    ids: Sequence[int]
    types: Sequence[int]
    offsets: Sequence[tuple[int, int]]
    truncated: bool


class TextEncoder:
    """Tokenises texts and pairs; safe from several threads, which it lets run meanwhile."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens

    @classmethod
    def load(cls, file: Path, max_tokens: int = 256) -> Self:
        """Read a tokenizer.json.

        Raises:
            ModelError: the file is absent or broken.
        """
        try:
            return cls(Tokenizer.from_file(str(file)), max_tokens)
        except Exception as error:  # the library raises plain Exception
            raise ModelError(f"cannot read {file}: {error}") from error

    def encode(self, texts: Sequence[str]) -> Tokens:
        """Tokenise texts into one batch."""
        return batch(self.tokenise(texts))

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> Tokens:
        """Tokenise pairs into one batch; the longer text of a pair is truncated first."""
        return batch(self.tokenise(pairs))

    def tokenise(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], *, placed: bool = False
    ) -> list[Tokenised]:
        """Tokenise each text or pair, without padding; only `placed` tokens have their offsets."""
        cut = [_cut(text) for text in texts]
        encode = self._tokenizer.encode_batch if placed else self._tokenizer.encode_batch_fast
        found = encode([text for text, _ in cut])
        return [_tokenised(encoding, was_cut) for encoding, (_, was_cut) in zip(found, cut, strict=True)]


def batch(texts: Sequence[Tokenised]) -> Tokens:
    """Pad tokenised texts to the longest of them."""
    shape = (len(texts), max((len(text.ids) for text in texts), default=0))
    ids, mask, types = (np.zeros(shape, np.int32) for _ in range(3))
    for row, text in enumerate(texts):
        length = len(text.ids)
        ids[row, :length] = text.ids
        types[row, :length] = text.types
        mask[row, :length] = 1
    return Tokens(ids, mask, types, np.array([text.truncated for text in texts], bool))


def _cut(text: str | tuple[str, str]) -> tuple[str | tuple[str, str], bool]:
    if isinstance(text, str):
        return _whole(text[:MAX_CHARS]), len(text) > MAX_CHARS
    first, second = text
    return (_whole(first[:MAX_CHARS]), _whole(second[:MAX_CHARS])), max(len(first), len(second)) > MAX_CHARS


def _whole(text: str) -> str:
    """The text without lone surrogates, which no tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokenised(encoding: Encoding, was_cut: bool) -> Tokenised:
    return Tokenised(encoding.ids, encoding.type_ids, encoding.offsets, was_cut or bool(encoding.overflowing))
