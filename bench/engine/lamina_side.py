"""Our engine in process: scheduler, kernels and greedy sampling, without HTTP and text."""

import argparse
import time
from pathlib import Path

from bench.engine.answering import Task, answer, ids_from
from engine.config import EngineConfig, EngineSpec
from engine.core import Core
from engine.detokenizer import OutputText
from engine.events import TokenEvent
from engine.metrics import Metrics
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.wiring import build_core, load

_SMALL_CHUNK = 64


class Lamina:
    """A loaded model behind a scheduler."""

    def __init__(self, path: Path, threads: int, config: EngineConfig) -> None:
        spec = EngineSpec(path, "bench", threads, config)
        loaded = load(spec)
        self.core: Core = build_core(loaded, Metrics())
        self.about = {"runner": type(loaded.runner).__name__, "kv": loaded.config.kv_dtype}
        self.vocab = loaded.checkpoint.config.vocab
        self._seed = self._next_id = 0

    def _fresh(self, count: int) -> list[int]:
        self._seed += 1
        return ids_from(self._seed, count, self.vocab)

    def _add(self, ids: list[int], max_tokens: int) -> Sequence:
        params = SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True)
        sequence = Sequence(self._next_id, 0, tuple(ids), params, 0, OutputText(()), time.monotonic())
        self._next_id += 1
        self._heed(self.core.add(sequence))
        return sequence

    def _step(self) -> None:
        self._heed(self.core.step())

    def _run_out(self) -> None:
        while self.core.has_work:
            self._step()

    def _heed(self, events: list[TokenEvent]) -> None:
        for event in events:
            if event.error is not None:
                raise event.error

    def prefill(self, tokens: int) -> float:
        """Time a prompt nobody has seen, its first token included."""
        ids = self._fresh(tokens)
        began = time.perf_counter()
        self._add(ids, 1)
        self._run_out()
        return time.perf_counter() - began

    def decode(self, sequences: int, context: int, tokens: int) -> float:
        """Time `tokens` steps of several sequences whose prompts are in."""
        room = tokens + 2 * sequences * (context // _SMALL_CHUNK + 2)
        entered = [self._add(self._fresh(context), room) for _ in range(sequences)]
        while not all(one.output_ids for one in entered):
            self._step()
        self._step()
        began = time.perf_counter()
        for _ in range(tokens):
            self._step()
        took = time.perf_counter() - began
        for one in entered:
            self.core.abort(one.seq_id)
        return took

    def cached(self, prefix: int, tail: int) -> float:
        """Time a prompt whose first `prefix` tokens another request has computed."""
        head = self._fresh(prefix)
        self._add(head + self._fresh(tail), 1)
        self._run_out()
        ids = head + self._fresh(tail)
        began = time.perf_counter()
        self._add(ids, 1)
        self._run_out()
        return time.perf_counter() - began

    def generate(self, context: int, tokens: int) -> float:
        """Time an answer of `tokens` tokens with the KV cache."""
        ids = self._fresh(context)
        began = time.perf_counter()
        self._add(ids, tokens)
        self._run_out()
        return time.perf_counter() - began

    def generate_uncached(self, context: int, tokens: int) -> float:
        """The same answer with everything computed anew for every token, as without a KV cache."""
        return sum(self.prefill(context + done) for done in range(tokens))


def main() -> None:
    """Load and answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    config = EngineConfig()
    side = Lamina(options.model, options.threads, config)
    tasks: dict[str, Task] = {
        "prefill": side.prefill,
        "decode": side.decode,
        "cached": side.cached,
        "generate": side.generate,
        "generate_uncached": side.generate_uncached,
    }
    answer({"name": "lamina", **side.about}, tasks)


if __name__ == "__main__":
    main()
