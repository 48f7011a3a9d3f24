"""Decode steps recorded once and replayed: which recordings there are, when one fits, and what if none does.

A graph repeats the very kernels it recorded, so its key holds everything that selects a kernel or its launch: two
steps with equal keys must be the same work but for the numbers in static buffers.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Protocol

import torch

_log = logging.getLogger(__name__)

_FINE_ROWS = (1, 2, 4, 8, 16)
_COARSE_ROWS = 32
_SHORT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class GraphKey:
    """What a recorded decode step is made of.

    Attributes:
        rows: sequences, padding included.
        longest: no sequence has more tokens; it selects the number of splits of decode attention.
        attention: the backend's name.
        dtype: of weights and activations.
        kv_dtype: of the pool.
        windows: of the KV groups.
        adapter: what else is mixed into the weights, or None.
        logit_rows: rows whose logits are computed.
    """

    rows: int
    longest: int
    attention: str
    dtype: str
    kv_dtype: str
    windows: tuple[int | None, ...]
    adapter: str | None
    logit_rows: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """The steps that are recorded; a step takes the smallest bucket it fits in.

    Attributes:
        rows: rising numbers of sequences.
        lengths: rising numbers of tokens in the pool.
    """

    rows: tuple[int, ...]
    lengths: tuple[int, ...]

    def fitting(self, rows: int, longest: int) -> tuple[int, int] | None:
        """Return the bucket for a step, or None where it fits in none."""
        row = next((bucket for bucket in self.rows if bucket >= rows), None)
        length = next((bucket for bucket in self.lengths if bucket >= longest), None)
        return None if row is None or length is None else (row, length)

    def all(self) -> list[tuple[int, int]]:
        """Return every bucket, largest first, so that the smaller ones fit into memory the larger have taken."""
        return sorted(product(self.rows, self.lengths), reverse=True)


def decode_buckets(max_rows: int, context: int) -> Buckets:
    """Return 1, 2, 4, 8, 16, then multiples of 32 up to the most rows; short steps and all others."""
    coarse = range(_COARSE_ROWS, max_rows, _COARSE_ROWS)
    rows = sorted({*(row for row in _FINE_ROWS if row < max_rows), *coarse, max_rows})
    lengths = (_SHORT_TOKENS, context) if context > _SHORT_TOKENS else (context,)
    return Buckets(tuple(rows), lengths)


class Recording(Protocol):
    """A recorded step."""

    def replay(self) -> None:
        """Do it again, on the current stream."""
        ...


class Recorder(Protocol):
    """Records steps; all recordings share one memory pool, so the results of one last until the next replay."""

    def record(self, step: Callable[[], None]) -> Recording:
        """Run a step and record it; the step must not wait for the device."""
        ...


class CudaRecorder:
    """Records CUDA graphs into one pool."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, step: Callable[[], None]) -> Recording:
        """Warm up beside the current stream, so that kernels are compiled and chosen, then record."""
        side: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            step()
        return graph


class GraphCache:
    """The recordings of a runner, by key.

    Attributes:
        failed: recordings that did not come about; their steps run eagerly.
        replays, eager: decode steps that had a recording, and that had none.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._recordings: dict[GraphKey, Recording] = {}
        self.failed = 0
        self.replays = 0
        self.eager = 0

    def __len__(self) -> int:
        return len(self._recordings)

    def record(self, keys: Sequence[GraphKey], step: Callable[[GraphKey], None]) -> None:
        """Record the step of each key in this order; a failure is counted and logged, and the others go on."""
        for key in keys:
            try:
                self._recordings[key] = self._recorder.record(partial(step, key))
            except Exception:  # noqa: BLE001  (that bucket's fault alone: counted, logged, and run eagerly)
                self.failed += 1
                _log.exception("a decode step of %d rows could not be captured and will run eagerly", key.rows)

    def find(self, key: GraphKey | None) -> Recording | None:
        """Return the recording of this very key and count it, or None where there is none."""
        found = None if key is None else self._recordings.get(key)
        if found is None:
            self.eager += 1
        else:
            self.replays += 1
        return found
