"""The embedder of whatever sentence-transformers loads; slower, and it needs torch."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from semantic.errors import ModelError


class SentenceEmbedder:
    """Embeds with a folder or a hub name.

    Args:
        name: of the model; remote code in it is never run, and pickled weights are refused.
        threads: unused; torch has its own setting.

    Raises:
        ModelError: the model cannot be loaded.
    """

    def __init__(self, name: str | Path, threads: int) -> None:  # noqa: ARG002  (the table's signature)
        try:
            self._model = SentenceTransformer(
                str(name), device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
        except Exception as error:  # the library passes on what a hub, a file or torch raises
            raise ModelError(f"sentence-transformers cannot load {name}: {error}") from error
        self._dimensions = int(self._model.encode(["x"]).shape[1])
        digest = hashlib.sha256()
        for key, value in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.cpu().float().contiguous().numpy().tobytes())
        digest.update(repr((str(self._model), self._model.max_seq_length)).encode())
        self._fingerprint = digest.hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """Digest of weights, modules and length."""
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts."""
        found = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, np.float32).reshape(len(texts), self._dimensions)
