"""Runs a plan's steps in one native call each; the quick counterpart of `engine.runner.Runner`.

A row's result depends on its own tokens and nothing else: not on the rows beside it, on how a prompt was cut,
on whether keys came from the cache, or on the number of threads. See docs/native-kernel.md.
"""

import ctypes
import threading
import weakref
from array import array
from collections.abc import Sequence

import torch

from engine.attention.paged import KvShape, PagedKV
from engine.errors import EngineError
from engine.kv.contract import Transfers
from engine.loader.contract import ModelConfig
from engine.models.decoder_weights import DecoderWeights
from engine.native.library import Library, Segment, Step
from engine.native.packed_model import PackedModel, native_kv, native_shape, pack_model
from engine.native.support import model_gap
from engine.runner import RunnerSpec, SaveSink
from engine.work import Plan, Work


class NativeRunner:
    """An `engine.core.StepRunner` over one KV pool. Calls from several threads take turns.

    Attributes:
        config: the model's shape.
        kv: the pool.
        weight_bytes: bytes of linear weights in memory.

    Raises:
        MemoryError: on making it, when the system refuses memory or threads.
    """

    any_chunks = True

    def __init__(self, library: Library, model: PackedModel, kv: PagedKV, saved: SaveSink) -> None:
        self.config = model.config
        self.kv = kv
        self.weight_bytes = model.weight_bytes
        self._saved = saved
        self._library = library
        self._blocks = tuple(pool.values.shape[1] // kv.shape.block_size for pool in kv.pools)
        shape = native_shape(model.config, kv.shape.block_size, model.threads)
        self._model = library.open(shape, model.weights, native_kv(kv))
        # A daemon thread may be in a step when the interpreter exits: the model waits for it.
        self._busy = threading.Lock()
        # The callback holds what the model points to, so that it goes after the model.
        self._end = weakref.finalize(self, _close, library, self._model, self._busy, (model, kv))

    def close(self) -> None:
        """Wait for a step that runs, end the threads and free the model; further calls do nothing."""
        self._end()

    def run(self, plan: Plan) -> torch.Tensor:
        """Carry out the plan's transfers, compute its work and store its keys and values.

        Returns:
            fp32 logits [samples, vocabulary], one row per work item that samples, in the order of the work.

        Raises:
            EngineError: a token, position or block is out of range, or the runner is closed; nothing was computed.
            MemoryError: the system refuses memory; nothing was computed.
        """
        with self._busy:
            if not self._end.alive:
                raise EngineError("the runner is closed")
            return self._run(plan)

    def _run(self, plan: Plan) -> torch.Tensor:
        self._transfer(plan.transfers)
        samples = [item.samples for item in plan.work]
        logits = torch.empty(sum(samples), self.config.vocab)
        if plan.work:
            self._compute(plan.work, samples, logits)
        return logits

    def _transfer(self, transfers: Transfers) -> None:
        for save in transfers.saves:
            self._saved(save.digest, save.group, self.kv.read_block(save.group, save.block))
        for restore in transfers.restores:
            self.kv.write_block(restore.group, restore.block, restore.payload)
        self.kv.copy(transfers.copies)

    def _compute(self, work: Sequence[Work], samples: Sequence[bool], logits: torch.Tensor) -> None:
        ids, sample_rows = array("i"), array("i")
        tables = [array("i") for _ in self._blocks]
        segments = (Segment * len(work))()
        for segment, item, sampled in zip(segments, work, samples, strict=True):
            end = item.start + item.count
            self._check(item)
            segment.row, segment.count, segment.start = len(ids), item.count, item.start
            segment.write_from = item.write_from
            segment.table = len(tables[0])
            longest = max(map(len, item.sequence.tables))
            for table, blocks in zip(tables, item.sequence.tables, strict=True):
                table.extend(blocks)
                table.extend((-1,) * (longest - len(blocks)))
            ids.extend(item.sequence.tokens(item.start, end))
            if len(ids) != segment.row + item.count:
                raise EngineError(f"the sequence has no tokens up to position {end}")
            if sampled:
                sample_rows.append(len(ids) - 1)
        if min(ids) < 0 or max(ids) >= self.config.vocab:
            raise EngineError("a token is outside the vocabulary")
        step = Step(
            rows=len(ids),
            segments=len(work),
            samples=len(sample_rows),
            ids=ids.buffer_info()[0],
            segment=segments,
            tables=(ctypes.c_void_p * len(tables))(*(table.buffer_info()[0] for table in tables)),
            sample_rows=sample_rows.buffer_info()[0],
            logits=logits.data_ptr(),
        )
        self._library.run(self._model, step)

    def _check(self, item: Work) -> None:
        """Prove that a sequence's blocks cover what its rows read and write."""
        end, size = item.start + item.count, self.kv.shape.block_size
        if item.start < 0 or item.count < 1 or end > self.config.context:
            raise EngineError(f"positions {item.start} to {end} are outside the model's context")
        for pool, count, blocks in zip(self.kv.pools, self._blocks, item.sequence.tables, strict=True):
            window = pool.group.window
            first = 0 if window is None else max(0, item.start - window + 1)
            seen = blocks[first // size : -(-end // size)]
            if len(seen) != -(-end // size) - first // size or min(seen) < 0 or max(seen) >= count:
                raise EngineError(f"a block of positions {first} to {end} is not in the pool")


def _close(library: Library, model: int, busy: threading.Lock, _keep: object) -> None:
    with busy:
        library.close(model)


def _discard(digest: bytes, group: int, payload: bytes) -> None:
    """Keep nothing."""


def build_native_runner(
    library: Library,
    config: ModelConfig,
    weights: DecoderWeights,
    spec: RunnerSpec,
    *,
    threads: int,
    saved: SaveSink = _discard,
) -> NativeRunner:
    """Pack the weights, reserve the KV pool, and make the runner of both.

    Args:
        library: the compiled kernels.
        config: the model's shape.
        weights: as read; may be let go afterwards.
        spec: block counts, block size and KV format; `linear` "fp16" keeps fp32 weights in half the bytes.
        threads: of the step, the caller's included.
        saved: where blocks that are saved go.

    Raises:
        EngineError: the kernels do not know the model's shape or KV format.
        MemoryError: the system refuses memory or threads.
    """
    gap = model_gap(config, spec.kv_dtype)
    if gap is not None:
        raise EngineError(gap)
    model = pack_model(config, weights, threads, narrow=spec.linear == "fp16")
    shape = KvShape(config.kv_heads, config.head_dim, spec.block_size, spec.kv_dtype)
    kv = PagedKV(config.kv_groups, spec.num_blocks, shape)
    return NativeRunner(library, model, kv, saved)
