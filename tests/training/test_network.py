"""The network that is trained and the one that serves compute the same."""

import random

import numpy as np
import pytest
import torch

from semantic.alignment import AlignmentNet, Prepared
from semantic.errors import ModelError
from semantic.marks import FLAGS, Marks
from training.network import Aligner
from training.states import Side

WIDTH = 12


def _text(rng: np.random.Generator, tokens: int) -> tuple[np.ndarray, Marks, np.ndarray]:
    stems = rng.integers(-1, 4, tokens)
    flags = rng.random((tokens, FLAGS), np.float32)
    names = tuple("" if stem < 0 else f"w{stem}" for stem in stems)
    return rng.normal(size=(tokens, 3 * WIDTH)).astype(np.float32), Marks(names, flags), stems


def _side(texts: list[tuple[np.ndarray, Marks, np.ndarray]], prepared: list[Prepared]) -> Side:
    longest = max(len(states) for states, _, _ in texts)
    states = np.zeros((len(texts), longest, 3 * WIDTH), np.float32)
    mask, stems = np.zeros((len(texts), longest), np.float32), np.full((len(texts), longest), -2, np.int64)
    flags = np.zeros((len(texts), longest, FLAGS), np.float32)
    for row, (found, marks, ids) in enumerate(texts):
        states[row, : len(found)], stems[row, : len(ids)], mask[row, : len(ids)] = found, ids, 1.0
        flags[row, : len(ids)] = marks.flags
    sentences = np.stack([text.sentence for text in prepared])
    tensors = [torch.from_numpy(part) for part in (states, mask, stems, flags, sentences)]
    return tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]


def _weights(network: Aligner) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in network.state_dict().items()}


@pytest.mark.parametrize("seed", range(4))
def test_serving_computes_what_was_trained(seed: int) -> None:
    torch.manual_seed(seed)
    network = Aligner(layers=3, width=WIDTH).eval()
    served = AlignmentNet(_weights(network))
    rng, lengths = np.random.default_rng(seed), random.Random(seed)
    firsts = [_text(rng, lengths.randint(1, 9)) for _ in range(5)]
    seconds = [_text(rng, lengths.randint(1, 9)) for _ in range(5)]
    ours, theirs = ([served.prepare(*text) for text in texts] for texts in (firsts, seconds))
    with torch.no_grad():
        expected = network(_side(firsts, ours), _side(seconds, theirs)).numpy()
    found = served.logits(list(zip(ours, theirs, strict=True)))
    np.testing.assert_allclose(found, expected, atol=5e-3)
    alone = np.concatenate([served.logits([pair]) for pair in zip(ours, theirs, strict=True)])
    np.testing.assert_allclose(found, alone, atol=1e-4)
    swapped = served.logits(list(zip(theirs, ours, strict=True)))
    np.testing.assert_allclose(found, swapped, atol=1e-4)


@pytest.mark.parametrize("lost", ["norm.0.weight", "align", "compare.1.bias", "out.0.weight", "importance.bias"])
def test_weights_that_lack_a_part_are_refused(lost: str) -> None:
    weights = _weights(Aligner(layers=3, width=WIDTH))
    del weights[lost]
    with pytest.raises(ModelError):
        AlignmentNet(weights)
