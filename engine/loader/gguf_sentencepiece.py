"""SentencePiece BPE from GGUF metadata: a vocabulary with scores instead of a list of merges.

SentencePiece joins, again and again, the two neighbours whose joint token has the highest score. A list of merges
does the same when it holds every way to split every token in two known ones, ordered by the score of the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, normalizers

_SPACE = "\u2581"
_NORMAL = 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id.

    Attributes:
        kinds: GGUF's token types.
        scores: higher is joined sooner.
        unknown: spelling of the token for what nothing spells, or None.
        space_prefix: whether text begins with a space that is not there.
    """

    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float]
    unknown: str | None
    space_prefix: bool


def sentencepiece_backend(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Build the tokenizer without its added tokens."""
    known = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    bpe = models.BPE(known, _merges(vocabulary, known), byte_fallback=True, unk_token=vocabulary.unknown)
    backend = tokenizers.Tokenizer(bpe)
    escape = normalizers.Replace(" ", _SPACE)
    backend.normalizer = (
        normalizers.Sequence([normalizers.Prepend(_SPACE), escape]) if vocabulary.space_prefix else escape
    )
    backend.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return backend


def _merges(vocabulary: Vocabulary, known: dict[str, int]) -> list[tuple[str, str]]:
    found: list[tuple[float, str, str]] = []
    for token, kind, score in zip(vocabulary.tokens, vocabulary.kinds, vocabulary.scores, strict=True):
        if kind == _NORMAL:
            cuts = range(1, len(token))
            found += [
                (-score, token[:cut], token[cut:]) for cut in cuts if token[:cut] in known and token[cut:] in known
            ]
    found.sort(key=lambda merge: merge[0])
    return [(left, right) for _, left, right in found]
