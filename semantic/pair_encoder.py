"""The frozen encoder below the verifier: hidden states of several layers, and marks of the tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from semantic.marks import Marks, mark
from semantic.models import bert_graph
from semantic.models.folder import digest_of, read_config, read_weights
from semantic.models.tokens import TextEncoder, batch

LAYERS = (0, 3, 6)
"""Words as such, in their phrase, in their sentence; of all-MiniLM-L6."""

MAX_TOKENS = 192


class PairEncoder:
    """Encodes single texts; one thread at a time.

    Args:
        folder: of an encoder with at least as many layers as the last of `layers`.
        threads: that compute, 0 for one per core.
        layers: whose states are given, ascending.

    Raises:
        ModelError: the folder is broken, of another family, or of too few layers.
    """

    def __init__(self, folder: Path, threads: int, layers: tuple[int, ...] = LAYERS) -> None:
        config = read_config(folder)
        self._tokens = TextEncoder.load(folder / "tokenizer.json", min(MAX_TOKENS, config.positions))
        self._session = bert_graph.session(read_weights(folder), config, "states", threads, layers=layers)
        self._width = config.hidden
        self.fingerprint = digest_of(folder / "model.safetensors")[:16]

    def encode(self, texts: Sequence[str]) -> list[tuple[np.ndarray, Marks, bool]]:
        """Per text its states, fp32 [S, L*H], the marks of its tokens, and whether it was read to its end."""
        if not texts:
            return []
        tokenised = self._tokens.tokenise(texts, placed=True)
        states = self._session.run(None, batch(tokenised).feeds)[0]
        found: list[tuple[np.ndarray, Marks, bool]] = []
        for row, (text, tokens) in enumerate(zip(texts, tokenised, strict=True)):
            marks = mark(text, tokens.ids, tokens.offsets)
            found.append((states[row, : len(tokens.ids)], marks, not tokens.truncated))
        return found

    def sentence(self, states: np.ndarray) -> np.ndarray:
        """The mean of the last layer's states, of length 1."""
        total = states[:, -self._width :].sum(axis=0)
        sentence: np.ndarray = total / max(float(np.linalg.norm(total)), 1e-12)
        return sentence
