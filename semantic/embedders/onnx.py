"""The embedder of BERT-family folders, in ONNX Runtime."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from semantic.models import bert_graph
from semantic.models.folder import digest_of, read_config, read_pooling, read_weights
from semantic.models.tokens import TextEncoder, Tokenised, batch

_MOST_TOGETHER = 32
_SLACK_TOKENS = 6
_SLACK = 1.2
"""Texts share a batch while the longest has at most so many tokens per token of the shortest, and a few more."""


class OnnxEmbedder:
    """Embeds with a folder of config.json, tokenizer.json and model.safetensors; one thread at a time.

    Args:
        folder: of the model.
        threads: that compute.

    Raises:
        ModelError: the folder is broken or of another family.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        config = read_config(folder)
        pooling = read_pooling(folder, config.positions)
        self._encoder = TextEncoder.load(folder / "tokenizer.json", pooling.max_tokens)
        self._session = bert_graph.session(read_weights(folder), config, "sentence", threads, pooling=pooling.kind)
        self._dimensions = config.hidden
        parts = [digest_of(folder / name) for name in ("model.safetensors", "tokenizer.json", "config.json")]
        made_from = json.dumps([*parts, pooling.kind, pooling.max_tokens])
        self._fingerprint = hashlib.sha256(made_from.encode()).hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """Digest of files, pooling and length."""
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        """The encoder's width."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts in batches of similar length."""
        found = np.empty((len(texts), self._dimensions), np.float32)
        tokenised = self._encoder.tokenise(texts)
        for rows in together([len(text.ids) for text in tokenised]):
            found[rows] = self._run([tokenised[row] for row in rows])
        return found

    def _run(self, texts: Sequence[Tokenised]) -> np.ndarray:
        vectors: np.ndarray = self._session.run(None, batch(texts).feeds)[0]
        return vectors


def together(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Cuts texts, given by their lengths, into batches that waste little on padding."""
    order = iter(sorted(range(len(lengths)), key=lengths.__getitem__))
    batch_rows: list[int] = []
    for row in itertools.chain(order, [-1]):
        ends = row < 0 or len(batch_rows) == _MOST_TOGETHER
        if batch_rows and (ends or lengths[row] > _SLACK * lengths[batch_rows[0]] + _SLACK_TOKENS):
            yield batch_rows
            batch_rows = []
        batch_rows.append(row)
