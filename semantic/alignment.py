"""A small network that aligns two texts token by token and weighs what does not match.

It reads the states that a frozen encoder gave each text on its own, so a stored question is encoded once. Every
token is compared with what it is softly aligned to in the other text; the comparisons are pooled over each text
and weighed together. After the decomposable attention model (Parikh et al. 2016, §3), with states of several
layers in place of word vectors.

P pairs, S and T tokens of the longest first and second text, L layers, H the encoder's width, D projected width,
F flags, W width of a comparison. Trained by `training/verifier.py`; a test holds both networks equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semantic.errors import ModelError
from semantic.marks import FLAGS, Marks

_NORM_EPS = 1e-5
_UNIT_EPS = 1e-12
_FAR = -1e4
_MOST_LAYERS = 24

Side = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Padded texts: projected [P, S, L*D], flags [P, S, F], mask [P, S], stems [P, S]."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text as the network reads it.

    Attributes:
        units: fp16 [S, L*H], each layer's normalised state at length 1.
        projected: fp32 [S, L*D].
        flags: fp32 [S, F].
        stems: int64 [S], equal for tokens of equal words, negative for special ones.
        sentence: fp32 [H], the mean of the last layer's states at length 1.
    """

    units: np.ndarray
    projected: np.ndarray
    flags: np.ndarray
    stems: np.ndarray
    sentence: np.ndarray

    @property
    def size_bytes(self) -> int:
        """Of the arrays."""
        return sum(part.nbytes for part in (self.units, self.projected, self.flags, self.stems, self.sentence))


class AlignmentNet:
    """One trained network.

    Args:
        weights: by the names that `training/verifier.py` gives them.

    Raises:
        ModelError: a weight is absent or of another shape than the others ask for.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        try:
            self._norms = [(weights[f"norm.{n}.weight"], weights[f"norm.{n}.bias"]) for n in _layers(weights)]
            self._projections = [
                (weights[f"proj.{n}.weight"].T, weights[f"proj.{n}.bias"]) for n in _layers(weights)
            ]
            self._align = weights["align"]
            self._compare = [(weights[f"compare.{n}.weight"].T, weights[f"compare.{n}.bias"]) for n in (0, 1)]
            self._importance = weights["importance.weight"][0], float(weights["importance.bias"][0])
            self._out = [(weights[f"out.{n}.weight"].T, weights[f"out.{n}.bias"]) for n in (0, 1)]
        except KeyError as error:
            raise ModelError(f"the verifier's weights lack {error}") from None
        projected = sum(bias.size for _, bias in self._projections)
        layers = len(self._norms)
        width = 2 * (projected + FLAGS) + 2 * projected + layers + 1 + 2
        if not layers or self._compare[0][0].shape[0] != width or self._align.shape[1] != layers + 1:
            raise ModelError("the verifier's weights do not fit one another")

    @property
    def layers(self) -> int:
        """How many layers' states it reads."""
        return len(self._norms)

    def prepare(self, states: np.ndarray, marks: Marks, stem_ids: np.ndarray) -> Prepared:
        """What of a text does not depend on the other one.

        Args:
            states: fp32 [S, L*H].
            marks: of the same tokens.
            stem_ids: int64 [S], see Prepared.
        """
        parts = np.split(states.astype(np.float32), self.layers, axis=1)
        normed = [_norm(part, *norm) for part, norm in zip(parts, self._norms, strict=True)]
        projected = [part @ weight + bias for part, (weight, bias) in zip(normed, self._projections, strict=True)]
        return Prepared(
            units=np.concatenate([_unit(part) for part in normed], axis=1).astype(np.float16),
            projected=np.concatenate(projected, axis=1),
            flags=marks.flags,
            stems=stem_ids,
            sentence=_unit(parts[-1].sum(axis=0)),
        )

    def logits(self, pairs: Sequence[tuple[Prepared, Prepared]]) -> np.ndarray:
        """fp32 [P]: log-odds, before calibration, that the texts of each pair mean the same."""
        if not pairs:
            return np.empty(0, np.float32)
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        one, other = _padded(firsts), _padded(seconds)
        same = (one[3][:, :, None] == other[3][:, None, :]).astype(np.float32)
        alike = self._alikeness(firsts, seconds, same)
        left = self._read(one, other, alike, same)
        right = self._read(other, one, alike.swapaxes(1, 2), same.swapaxes(1, 2))
        lengths = np.stack([one[2].sum(axis=1), other[2].sum(axis=1)], axis=1)
        cosine = np.array([[first.sentence @ second.sentence] for first, second in pairs], np.float32)
        whole = [
            left + right,
            np.abs(left - right),
            cosine,
            np.abs(lengths[:, :1] - lengths[:, 1:]) / 10,
            lengths.min(axis=1, keepdims=True) / 30,
        ]
        hidden = _relu(np.concatenate(whole, axis=1) @ self._out[0][0] + self._out[0][1])
        scores: np.ndarray = (hidden @ self._out[1][0] + self._out[1][1])[:, 0]
        return scores

    def _alikeness(self, firsts: Sequence[Prepared], seconds: Sequence[Prepared], same: np.ndarray) -> np.ndarray:
        """[P, S, T, L+1]: cosine of each layer's states, and whether the words are equal."""
        alike = np.zeros((*same.shape, self.layers + 1), np.float32)
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            layers = zip(
                np.split(first.units, self.layers, axis=1),
                np.split(second.units, self.layers, axis=1),
                strict=True,
            )
            for layer, (one, other) in enumerate(layers):
                alike[number, : len(one), : len(other), layer] = one @ other.T
        alike[..., -1] = same
        return alike

    def _read(self, one: Side, other: Side, alike: np.ndarray, same: np.ndarray) -> np.ndarray:
        """[P, 2*W]: the first text's comparisons with the second, pooled twice."""
        text, flags, mask, _ = one
        there, their_flags, their_mask, _ = other
        drawn = np.einsum("pstc,hc->hpst", alike, self._align, optimize=True)
        drawn = np.where(their_mask[None, :, None, :] > 0, drawn, _FAR)
        shares = _softmax(drawn).mean(axis=0)
        aligned = shares @ there
        nearest = np.where(their_mask[:, None, :, None] > 0, alike, -1.0).max(axis=2)
        seen = [
            text,
            flags,
            aligned,
            shares @ their_flags,
            np.abs(text - aligned),
            text * aligned,
            nearest,
            shares.max(axis=2, keepdims=True),
            (shares * same).sum(axis=2, keepdims=True),
        ]
        compared = np.concatenate(seen, axis=2)
        for weight, bias in self._compare:
            compared = _relu(compared @ weight + bias)
        importance = np.where(mask > 0, compared @ self._importance[0] + self._importance[1], _FAR)
        pooled = (compared * _softmax(importance)[:, :, None]).sum(axis=1)
        strongest = np.where(mask[:, :, None] > 0, compared, _FAR).max(axis=1)
        return np.concatenate([pooled, strongest], axis=1)


def _layers(weights: Mapping[str, np.ndarray]) -> list[int]:
    return [number for number in range(_MOST_LAYERS) if f"norm.{number}.weight" in weights]


def _padded(texts: Sequence[Prepared]) -> Side:
    longest = max(len(text.stems) for text in texts)
    shape = (len(texts), longest)
    projected = np.zeros((*shape, texts[0].projected.shape[1]), np.float32)
    flags = np.zeros((*shape, FLAGS), np.float32)
    mask = np.zeros(shape, np.float32)
    stems = np.full(shape, -2, np.int64)
    for row, text in enumerate(texts):
        length = len(text.stems)
        projected[row, :length] = text.projected
        flags[row, :length] = text.flags
        mask[row, :length] = 1.0
        stems[row, :length] = text.stems
    return projected, flags, mask, stems


def _norm(states: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = states - states.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _NORM_EPS)
    normed: np.ndarray = centred / spread * weight + bias
    return normed


def _unit(states: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((states**2).sum(axis=-1, keepdims=True))
    units: np.ndarray = states / np.maximum(lengths, _UNIT_EPS)
    return units


def _relu(values: np.ndarray) -> np.ndarray:
    positive: np.ndarray = np.maximum(values, 0.0)
    return positive


def _softmax(values: np.ndarray) -> np.ndarray:
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    shares: np.ndarray = shifted / shifted.sum(axis=-1, keepdims=True)
    return shares
