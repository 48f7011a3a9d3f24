"""llama.cpp through llama-cpp-python's low-level binding: no sampling, no text, as its own benchmark runs it."""

import argparse
import time

import llama_cpp as ll

from bench.engine.answering import Task, answer, ids_from

_CONTEXT = 16384
_BATCH = 2048
_UBATCH = 512


class LlamaCpp:
    """A loaded model and one context for sixteen sequences."""

    def __init__(self, path: str, threads: int) -> None:
        ll.llama_backend_init()
        self.model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = _CONTEXT, _BATCH, _UBATCH, 16
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        self.context = ll.llama_init_from_model(self.model, params)
        self.memory = ll.llama_get_memory(self.context)
        self.batch = ll.llama_batch_init(_BATCH, 0, 1)
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self._seed = 0

    def _fresh(self, count: int) -> list[int]:
        self._seed += 1
        return ids_from(self._seed, count, self.vocab)

    def _feed(self, rows: list[tuple[int, int, int]], wants: set[int]) -> None:
        """Decode (token, position, sequence) rows; logits for the rows in `wants`."""
        batch = self.batch
        for row, (token, position, sequence) in enumerate(rows):
            batch.token[row], batch.pos[row] = token, position
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, sequence
            batch.logits[row] = row in wants
        batch.n_tokens = len(rows)
        if ll.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        ll.llama_synchronize(self.context)

    def _prompt(self, ids: list[int], sequence: int, start: int = 0) -> None:
        rows = [(token, start + index, sequence) for index, token in enumerate(ids)]
        for first in range(0, len(rows), _BATCH):
            part = rows[first : first + _BATCH]
            self._feed(part, {len(part) - 1})

    def prefill(self, tokens: int) -> float:
        """Time a prompt in an empty context."""
        ll.llama_memory_clear(self.memory, True)
        ids = self._fresh(tokens)
        began = time.perf_counter()
        self._prompt(ids, 0)
        return time.perf_counter() - began

    def decode(self, sequences: int, context: int, tokens: int) -> float:
        """Time `tokens` steps of several sequences whose prompts are in."""
        ll.llama_memory_clear(self.memory, True)
        for sequence in range(sequences):
            self._prompt(self._fresh(context), sequence)
        wants = set(range(sequences))
        self._feed([(1000, context, sequence) for sequence in range(sequences)], wants)
        began = time.perf_counter()
        for step in range(1, tokens + 1):
            self._feed([(1000 + step, context + step, sequence) for sequence in range(sequences)], wants)
        return time.perf_counter() - began

    def cached(self, prefix: int, tail: int) -> float:
        """Time `tail` new tokens behind a prefix that is in the context."""
        ll.llama_memory_clear(self.memory, True)
        self._prompt(self._fresh(prefix), 0)
        ids = self._fresh(tail)
        began = time.perf_counter()
        self._prompt(ids, 0, prefix)
        return time.perf_counter() - began


def main() -> None:
    """Load and answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    silent = ll.llama_log_callback(lambda *_: None)
    ll.llama_log_set(silent, None)
    peer = LlamaCpp(options.model, options.threads)
    tasks: dict[str, Task] = {"prefill": peer.prefill, "decode": peer.decode, "cached": peer.cached}
    answer({"name": "llama.cpp", "version": ll.__version__, "kv": "f16"}, tasks)


if __name__ == "__main__":
    main()
