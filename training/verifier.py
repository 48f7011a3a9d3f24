"""Trains the packaged verifier: `python -m training.verifier --data DIR [--seeds 3] [--epochs 8] [--out FOLDER]`.

Reads the families in `training/data` and the public pairs in DIR/train, trains one network per seed on the same
frozen states, calibrates their mean on families that none of them saw, and writes `verifier.safetensors` (fp16)
and `verifier.json`. Seeded; the same machine gives the same weights. Takes about 40 minutes on two cores.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch.nn import functional

from policies.vetoes import compare, read
from semantic.lexicon import load_lexicon
from semantic.models.folder import packaged_embedder
from semantic.pair_encoder import LAYERS, PairEncoder
from training.network import Aligner
from training.pairs import FAMILIES, Family, Pair, pairs_of, read_families, read_public
from training.states import Bank

WEIGHTS = Path(__file__).parent.parent / "semantic" / "weights"
PUBLIC: Mapping[str, int] = {
    "ambignq_pairs": 1500,
    "advising_pairs": 1200,
    "sgd_request_pairs": 1200,
    "spider_syn_pairs": 800,
    "breaking_nli_pairs": 800,
    "disfl_qa_pairs": 600,
    "timeqa_pairs": 300,
    "negation_pairs": 150,
}
"""Rows taken of each public set; the families say more about questions people ask, so they outnumber these."""

_HELD_OUT_SHARE = 0.05
_NEGATIVES = 24
_BATCH = 256
_SORTED_TOGETHER = 20
_LEARNING_RATE = 2e-3
_WARM_UP_STEPS = 100
_SMOOTHING = 0.01


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and writes; returns the exit status."""
    options = _options(arguments)
    torch.set_flush_denormal(True)
    rng = random.Random(options.seed)
    families = read_families(FAMILIES, rng)
    public = read_public(options.data, PUBLIC, rng)
    rng.shuffle(families)
    cut = max(1, int(len(families) * _HELD_OUT_SHARE))
    held_out, taught = families[:cut], families[cut:]
    known = held_out if options.recalibrate else families
    texts = [text for family in known for text in family.texts]
    texts += [text for pair in public for text in (pair.a, pair.b) if not options.recalibrate]
    bank = Bank(packaged_embedder(), texts, _tick)
    _say(f"{len(families)} families, {len(public)} public pairs")
    if options.recalibrate:
        networks = _read(options.out)
    else:
        networks = [_train(seed, taught, public, bank, options.epochs) for seed in range(options.seeds)]
    calibration, figures = _examine(networks, held_out, bank, options.seed)
    _write(options.out, networks, calibration, figures)
    return 0


def _examine(
    networks: Sequence[Aligner], held_out: Sequence[Family], bank: Bank, seed: int
) -> tuple[tuple[float, float], dict[str, float]]:
    """Calibration and figures on families that no network saw.

    A probability is only ever asked for where no veto speaks, so the calibration is that of the pairs without one;
    before the vetoes, both labels count alike.
    """
    rng = random.Random(seed + 1)
    exam = [pair for family in held_out for pair in pairs_of(family, held_out, rng, 40)]
    logits = np.mean([_scores(network, exam, bank) for network in networks], axis=0)
    truth = np.array([pair.same for pair in exam])
    lexicon = load_lexicon()
    facts = {text: read(text, lexicon) for pair in exam for text in (pair.a, pair.b)}
    free = np.array([compare(facts[pair.a], facts[pair.b]) is None for pair in exam])
    weights = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    calibration = _calibration(logits[free], truth[free], weights[free])
    judged = np.where(free, logits, logits.min() - 1)
    figures = {
        "held_out_families": len(held_out),
        "held_out_pairs": len(exam),
        **_figures(logits, truth, "verifier"),
        **_figures(judged, truth, "with_vetoes"),
    }
    _say(json.dumps(figures))
    return calibration, figures


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.verifier", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, see its README")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--seeds", type=int, default=3, help="networks whose mean is taken")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument(
        "--recalibrate", action="store_true", help="train nothing: calibrate what is in --out anew"
    )
    return parser.parse_args(arguments)


def _train(seed: int, taught: Sequence[Family], public: Sequence[Pair], bank: Bank, epochs: int) -> Aligner:
    torch.manual_seed(seed)
    rng = random.Random(seed)
    network = Aligner(layers=len(LAYERS))
    optimizer = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE, weight_decay=0.02)
    step, steps, begun = 0, 0, time.monotonic()
    for epoch in range(epochs):
        pairs = [pair for family in taught for pair in pairs_of(family, taught, rng, _NEGATIVES)]
        batches = _batches([*pairs, *public], rng)
        steps = steps or len(batches) * epochs
        network.train()
        total = 0.0
        for batch in batches:
            step += 1
            rate = _LEARNING_RATE * min(1.0, step / _WARM_UP_STEPS) * max(0.0, 1 - step / steps)
            total += _step(network, optimizer, batch, bank, rate)
        spent_s = time.monotonic() - begun
        _say(f"seed {seed}, epoch {epoch + 1}/{epochs}: loss {total / len(batches):.4f}, {spent_s:.0f} s")
    return network.eval()


def _step(
    network: Aligner, optimizer: torch.optim.Optimizer, batch: Sequence[Pair], bank: Bank, rate: float
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    truth = torch.tensor([float(pair.same) for pair in batch])
    scores = network(bank.side([pair.a for pair in batch]), bank.side([pair.b for pair in batch]))
    loss = functional.binary_cross_entropy_with_logits(scores, truth * (1 - 2 * _SMOOTHING) + _SMOOTHING)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _batches(pairs: list[Pair], rng: random.Random) -> list[list[Pair]]:
    """Shuffled batches of pairs of similar length."""
    rng.shuffle(pairs)
    batches: list[list[Pair]] = []
    together = _BATCH * _SORTED_TOGETHER
    for start in range(0, len(pairs), together):
        chunk = sorted(pairs[start : start + together], key=lambda pair: len(pair.a) + len(pair.b))
        batches += [chunk[at : at + _BATCH] for at in range(0, len(chunk), _BATCH)]
    rng.shuffle(batches)
    return batches


@torch.no_grad()
def _scores(network: Aligner, pairs: Sequence[Pair], bank: Bank) -> np.ndarray:
    found = np.empty(len(pairs))
    order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].a) + len(pairs[place].b))
    for start in range(0, len(order), _BATCH):
        places = order[start : start + _BATCH]
        sides = [bank.side([getattr(pairs[place], side) for place in places]) for side in ("a", "b")]
        found[places] = network(*sides).numpy()
    return found


def _calibration(logits: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Slope and offset that make the logits log-odds (Platt 1999)."""
    slope, offset = 1.0, 0.0
    for _ in range(50):  # Newton's method on two numbers
        chance = 1 / (1 + np.exp(-np.clip(slope * logits + offset, -30, 30)))
        error, curve = weights * (chance - truth), weights * chance * (1 - chance)
        gradient = np.array([(error * logits).sum(), error.sum()])
        second = np.array(
            [[(curve * logits**2).sum(), (curve * logits).sum()], [(curve * logits).sum(), curve.sum()]]
        )
        slope, offset = np.array([slope, offset]) - np.linalg.solve(second + 1e-9 * np.eye(2), gradient)
    return float(slope), float(offset)


def _figures(logits: np.ndarray, truth: np.ndarray, name: str) -> dict[str, float]:
    """Area under the curve, and the share of positives above the given share of negatives."""
    wrong = np.sort(logits[~truth])[::-1]
    order = np.argsort(np.argsort(logits))
    positives = int(truth.sum())
    area = (order[truth].sum() - positives * (positives - 1) / 2) / (positives * len(wrong))
    found = {f"{name}_auc": round(float(area), 4)}
    for share in (0.01, 0.05):
        found[f"{name}_hits_at_{share:.0%}_wrong"] = round(
            float((logits[truth] > wrong[int(share * len(wrong))]).mean()), 4
        )
    return found


def _read(folder: Path) -> list[Aligner]:
    count = int(json.loads((folder / "verifier.json").read_text("utf-8"))["networks"])
    weights = load_file(folder / "verifier.safetensors")
    networks = [Aligner(layers=len(LAYERS)).eval() for _ in range(count)]
    for number, network in enumerate(networks):
        own = {
            name: torch.from_numpy(weights[f"{number}.{name}"].astype(np.float32)) for name in network.state_dict()
        }
        network.load_state_dict(own)
    return networks


def _write(
    folder: Path, networks: Sequence[Aligner], calibration: tuple[float, float], figures: Mapping[str, float]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        f"{number}.{name}": value.detach().numpy().astype(np.float16)
        for number, network in enumerate(networks)
        for name, value in network.state_dict().items()
    }
    save_file(weights, folder / "verifier.safetensors")
    encoder = PairEncoder(packaged_embedder(), threads=1).fingerprint
    described = {
        "format": 1,
        "networks": len(networks),
        "layers": list(LAYERS),
        "encoder": encoder,
        "calibration": {"slope": calibration[0], "offset": calibration[1]},
        "figures": dict(figures),
    }
    (folder / "verifier.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    if not all(math.isfinite(part) for part in calibration):
        raise ValueError("the calibration did not converge")


def _tick(done: int, whole: int) -> None:
    if done % 5120 == 0:
        _say(f"encoded {done} of {whole}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
