"""States and marks of many texts, as the verifier will see them, kept in one array."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from semantic.marks import FLAGS
from semantic.pair_encoder import PairEncoder

Side = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""States [P, S, L*H], mask [P, S], stems [P, S], flags [P, S, F], sentences [P, H]."""

_BATCH = 128


class Bank:
    """Encodes texts once and hands out padded batches of them.

    Args:
        folder: of the encoder.
        texts: each is encoded once.
        tick: called with (done, all).
    """

    def __init__(self, folder: Path, texts: Iterable[str], tick: Callable[[int, int], None]) -> None:
        encoder = PairEncoder(folder, threads=0)
        ordered = sorted(set(texts), key=len)
        self._rows = {text: row for row, text in enumerate(ordered)}
        self._starts = [0]
        self._marks: list[tuple[np.ndarray, np.ndarray]] = []
        states: list[np.ndarray] = []
        sentences: list[np.ndarray] = []
        stem_ids: dict[str, int] = {"": -1}
        for start in range(0, len(ordered), _BATCH):
            tick(start, len(ordered))
            for found, marks, _ in encoder.encode(ordered[start : start + _BATCH]):
                stems = np.array([stem_ids.setdefault(stem, len(stem_ids)) for stem in marks.stems], np.int64)
                states.append(found.astype(np.float16))
                self._marks.append((stems, marks.flags))
                self._starts.append(self._starts[-1] + len(found))
                sentences.append(encoder.sentence(found))
        self._states = np.concatenate(states)
        self._sentences = np.stack(sentences)

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """fp32 [N, H], unit rows, of N known texts."""
        found: np.ndarray = self._sentences[[self._rows[text] for text in texts]]
        return found

    def side(self, texts: Sequence[str]) -> Side:
        """The texts as padded tensors, in their order."""
        rows = [self._rows[text] for text in texts]
        longest = max(self._starts[row + 1] - self._starts[row] for row in rows)
        states = np.zeros((len(rows), longest, self._states.shape[1]), np.float16)
        mask = np.zeros((len(rows), longest), np.float32)
        stems = np.full((len(rows), longest), -2, np.int64)
        flags = np.zeros((len(rows), longest, FLAGS), np.float32)
        for place, row in enumerate(rows):
            start, end = self._starts[row], self._starts[row + 1]
            states[place, : end - start] = self._states[start:end]
            mask[place, : end - start] = 1.0
            stems[place, : end - start], flags[place, : end - start] = self._marks[row]
        found = (states.astype(np.float32), mask, stems, flags, self._sentences[rows])
        return tuple(torch.from_numpy(part) for part in found)  # type: ignore[return-value]
