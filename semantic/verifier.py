"""The packaged verifier: a calibrated probability that two questions have the same answer.

Each text is encoded once by the frozen encoder (kept in a cache), and a few small networks compare the states of
two texts. Docs and figures: docs/verifier.md; training: `python -m training.verifier`.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from semantic.alignment import AlignmentNet, Prepared
from semantic.errors import ModelError
from semantic.models.folder import digest_of, packaged_embedder
from semantic.pair_encoder import PairEncoder

PACKAGED = Path(__file__).parent / "weights"
_NEAR, _STRANGE = 0.8, 8.0
"""Cosine below which a pair loses log-odds, and how many per unit: strangers are nominated too, in words that no
family has; chosen beside a plain threshold on public questions to chat bots."""

_FORMAT = 1
_CACHE_BYTES = 128 << 20
_MOST_NETWORKS = 16
_ENCODED_TOGETHER = 16
_STEM_BITS = 62


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as each network reads it, and whether it was read to its end."""

    prepared: tuple[Prepared, ...]
    whole: bool

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.prepared)


class AlignmentVerifier:
    """Compares questions; one thread at a time.

    Args:
        networks: whose mean log-odds are taken; all read the same layers.
        encoder: below them.
        calibration: slope and offset that turn the mean into log-odds.
        fingerprint: of all of them.
    """

    def __init__(
        self,
        networks: Sequence[AlignmentNet],
        encoder: PairEncoder,
        calibration: tuple[float, float],
        fingerprint: str,
    ) -> None:
        self._networks = networks
        self._encoder = encoder
        self._slope, self._offset = calibration
        self.fingerprint = fingerprint
        self._texts: OrderedDict[str, _Text] = OrderedDict()
        self._size_bytes = 0

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the probability, 0 to 1, that both texts have the same answer; the order in a pair is free.

        A text too long to be read to its end may differ there, so its pairs have none.
        """
        if not pairs:
            return []
        texts = self._prepared(dict.fromkeys(text for pair in pairs for text in pair))
        logits = np.zeros(len(pairs))
        for number, network in enumerate(self._networks):
            sides = [(texts[one].prepared[number], texts[other].prepared[number]) for one, other in pairs]
            logits += network.logits(sides)
        firsts = [(texts[one].prepared[0].sentence, texts[other].prepared[0].sentence) for one, other in pairs]
        cosines = np.array([first @ second for first, second in firsts])
        short = np.maximum(_NEAR - cosines, 0.0)
        odds = self._slope * logits / len(self._networks) + self._offset - _STRANGE * short
        chances = 1 / (1 + np.exp(-np.clip(odds, -30.0, 30.0)))
        whole = [texts[one].whole and texts[other].whole for one, other in pairs]
        return [float(chance) if read else 0.0 for chance, read in zip(chances, whole, strict=True)]

    def _prepared(self, wanted: dict[str, None]) -> dict[str, _Text]:
        found = {text: self._texts[text] for text in wanted if text in self._texts}
        for text in found:
            self._texts.move_to_end(text)
        absent = sorted((text for text in wanted if text not in found), key=len)
        for start in range(0, len(absent), _ENCODED_TOGETHER):
            some = absent[start : start + _ENCODED_TOGETHER]
            for text, (states, marks, whole) in zip(some, self._encoder.encode(some), strict=True):
                stems = np.array([_stem_id(stem) for stem in marks.stems], np.int64)
                prepared = tuple(network.prepare(states, marks, stems) for network in self._networks)
                found[text] = _Text(prepared, whole)
                self._keep(text, found[text])
        return found

    def _keep(self, text: str, known: _Text) -> None:
        self._texts[text] = known
        self._size_bytes += known.size_bytes
        while self._size_bytes > _CACHE_BYTES and len(self._texts) > 1:
            _, oldest = self._texts.popitem(last=False)
            self._size_bytes -= oldest.size_bytes


def load_verifier(folder: Path | None, threads: int) -> AlignmentVerifier:
    """Loads a verifier.

    Args:
        folder: with verifier.json and verifier.safetensors; the packaged one when absent.
        threads: that the encoder computes with.

    Raises:
        ModelError: a file is absent, broken, or made for another encoder.
    """
    folder = folder or PACKAGED
    described = _read_json(folder / "verifier.json")
    weights = _read_weights(folder / "verifier.safetensors")
    try:
        count, layers = int(described["networks"]), tuple(int(layer) for layer in described["layers"])
        calibration = float(described["calibration"]["slope"]), float(described["calibration"]["offset"])
        made_for = str(described["encoder"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder}/verifier.json lacks or mistypes {error}") from None
    if described.get("format") != _FORMAT or not 0 < count <= _MOST_NETWORKS:
        raise ModelError(f"{folder}/verifier.json is of another format")
    encoder = PairEncoder(packaged_embedder(), threads, layers)
    if encoder.fingerprint != made_for:
        raise ModelError(f"the verifier in {folder} was trained on another encoder")
    networks = [AlignmentNet(_of_network(weights, number)) for number in range(count)]
    parts = [digest_of(folder / "verifier.safetensors"), json.dumps(calibration), made_for]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return AlignmentVerifier(networks, encoder, calibration, fingerprint)


def _of_network(weights: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    before = f"{number}."
    return {
        name.removeprefix(before): value.astype(np.float32)
        for name, value in weights.items()
        if name.startswith(before)
    }


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {file}: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{file} is not a JSON object")
    return value


def _read_weights(file: Path) -> dict[str, np.ndarray]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot read {file}: {error}") from None


def _stem_id(stem: str) -> int:
    """A number that equal words share; negative for a special token, which is no word."""
    if not stem:
        return -1
    digest = hashlib.blake2b(stem.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") & ((1 << _STEM_BITS) - 1)
