"""Trains the packaged verifier: `python -m training.verifier --data DIR [--seeds 2] [--epochs 8] [--out FOLDER]`.

Reads the families in `training/data` and the public pairs in DIR/train, trains one network per seed on the same
frozen states, calibrates their mean on families that none of them saw, and writes `verifier.safetensors` (fp16)
and `verifier.json`. Seeded; the same machine gives the same weights. Networks are trained side by side, one per
core; two take about an hour on two cores.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch.nn import functional

from policies.vetoes import compare, read
from semantic.lexicon import load_lexicon
from semantic.models.folder import packaged_embedder
from semantic.pair_encoder import LAYERS, PairEncoder
from training.calibration import calibration_of, figures_of
from training.network import Aligner
from training.pairs import FAMILIES, Family, Pair, pairs_of, read_families, read_public
from training.states import Bank
from training.strangers import Strangers, find_strangers, strangers_of

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

_HELD_OUT_SHARE = 0.07
_NEGATIVES = 24
_STRANGERS, _STRANGERS_IN_EXAM = 4, 12
_STRANGE = ("stranger", "far")
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
    texts = [text for family in families for text in family.texts]
    texts += [text for pair in public for text in (pair.a, pair.b) if not options.recalibrate]
    bank = Bank(packaged_embedder(), texts, _tick)
    strangers = find_strangers(families, bank.sentences)
    _say(f"{len(families)} families, {len(public)} public pairs")
    if options.recalibrate:
        networks = _read(options.out)
    else:
        course = _Course(taught, public, strangers, bank, options.epochs)
        networks = _train_all(course, options.seeds)
    exam = _exam(held_out, strangers, random.Random(options.seed + 1))
    calibration, figures = _examine(networks, exam, bank)
    _write(options.out, networks, calibration, {"held_out_families": len(held_out), **figures})
    return 0


def _exam(held_out: Sequence[Family], strangers: Strangers, rng: random.Random) -> list[Pair]:
    """Pairs of families that no network saw, and these beside their near strangers."""
    exam = [pair for family in held_out for pair in pairs_of(family, held_out, rng, 40)]
    return exam + [
        pair for family in held_out for pair in strangers_of(family, strangers, rng, _STRANGERS_IN_EXAM)
    ]


def _examine(networks: Sequence[Aligner], exam: Sequence[Pair], bank: Bank) -> tuple[np.ndarray, dict[str, float]]:
    """Calibration and figures.

    A probability is only ever asked for where no veto speaks, so the calibration is that of the pairs without one;
    before the vetoes, both labels count alike, and among the negatives traps and strangers.
    """
    logits = np.mean([_scores(network, exam, bank) for network in networks], axis=0)
    truth = np.array([pair.same for pair in exam])
    strange = np.array([pair.kind in _STRANGE for pair in exam])
    lexicon = load_lexicon()
    facts = {text: read(text, lexicon) for pair in exam for text in (pair.a, pair.b)}
    free = np.array([compare(facts[pair.a], facts[pair.b]) is None for pair in exam])
    traps = ~truth & ~strange
    weights = np.select([truth, traps], [0.5 / truth.sum(), 0.25 / traps.sum()], 0.25 / max(strange.sum(), 1))
    calibration = calibration_of(logits[free][:, None], truth[free], weights[free])
    judged = np.where(free, logits, logits.min() - 1)
    figures = {
        "held_out_pairs": len(exam),
        **figures_of(logits, truth, "verifier"),
        **figures_of(judged, truth, "with_vetoes"),
        **figures_of(judged[~strange], truth[~strange], "with_vetoes_traps"),
    }
    _say(json.dumps({**figures, "calibration": calibration.tolist()}))
    return calibration, figures


@dataclass(frozen=True, slots=True)
class _Course:
    """What a network learns from."""

    families: Sequence[Family]
    public: Sequence[Pair]
    strangers: Strangers
    bank: Bank
    epochs: int

    def batches(self, rng: random.Random) -> list[list[Pair]]:
        """One epoch, drawn anew."""
        pairs = [*self.public]
        for family in self.families:
            pairs += pairs_of(family, self.families, rng, _NEGATIVES)
            pairs += strangers_of(family, self.strangers, rng, _STRANGERS)
        return _batches(pairs, rng)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.verifier", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, see its README")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--seeds", type=int, default=2, help="networks whose mean is taken")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument(
        "--recalibrate", action="store_true", help="train nothing: calibrate what is in --out anew"
    )
    return parser.parse_args(arguments)


def _train_all(course: _Course, seeds: int) -> list[Aligner]:
    """One process per seed and core, forked, so that all read the one bank."""
    forked = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{seed}.safetensors" for seed in range(seeds)]
        waiting = [
            forked.Process(target=_train_into, args=(path, seed, course), name=f"seed {seed}")
            for seed, path in enumerate(paths)
        ]
        running: list[ForkProcess] = []
        try:
            while waiting or running:
                while waiting and len(running) < len(os.sched_getaffinity(0)):
                    started = waiting.pop(0)
                    started.start()
                    running.append(started)
                _reap(running)
        finally:
            for one in running:
                one.terminate()
                one.join()
        return [_network_of(load_file(path)) for path in paths]


def _reap(running: list[ForkProcess]) -> None:
    """Waits until one has ended.

    Raises:
        SystemExit: it failed.
    """
    wait([one.sentinel for one in running])
    for ended in [one for one in running if one.exitcode is not None]:
        running.remove(ended)
        if ended.exitcode:
            raise SystemExit(f"training of {ended.name} ended with {ended.exitcode}")


def _train_into(path: Path, seed: int, course: _Course) -> None:
    torch.set_num_threads(1)
    state = _train(seed, course).state_dict()
    save_file({name: value.detach().numpy() for name, value in state.items()}, path)


def _network_of(weights: Mapping[str, np.ndarray]) -> Aligner:
    network = Aligner(layers=len(LAYERS)).eval()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return network


def _train(seed: int, course: _Course) -> Aligner:
    torch.manual_seed(seed)
    rng = random.Random(seed)
    network = Aligner(layers=len(LAYERS))
    optimizer = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE, weight_decay=0.02)
    step, steps, begun = 0, 0, time.monotonic()
    for epoch in range(course.epochs):
        batches = course.batches(rng)
        steps = steps or len(batches) * course.epochs
        network.train()
        total = 0.0
        for batch in batches:
            step += 1
            rate = _LEARNING_RATE * min(1.0, step / _WARM_UP_STEPS) * max(0.0, 1 - step / steps)
            total += _step(network, optimizer, batch, course.bank, rate)
        spent_s = time.monotonic() - begun
        _say(f"seed {seed}, epoch {epoch + 1}/{course.epochs}: loss {total / len(batches):.4f}, {spent_s:.0f} s")
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


def _read(folder: Path) -> list[Aligner]:
    count = int(json.loads((folder / "verifier.json").read_text("utf-8"))["networks"])
    weights = load_file(folder / "verifier.safetensors")
    names = Aligner(layers=len(LAYERS)).state_dict()
    return [
        _network_of({name: weights[f"{number}.{name}"].astype(np.float32) for name in names})
        for number in range(count)
    ]


def _write(
    folder: Path, networks: Sequence[Aligner], calibration: np.ndarray, figures: Mapping[str, float]
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
        "calibration": dict(zip(("slope", "offset"), calibration.tolist(), strict=True)),
        "figures": dict(figures),
    }
    (folder / "verifier.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")


def _tick(done: int, whole: int) -> None:
    if done % 5120 == 0:
        _say(f"encoded {done} of {whole}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
