"""Plans on a device: decode steps replayed from graphs, all others run kernel by kernel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.cuda.decode_step import DecodeRow, DecodeStep, StepParts
from engine.cuda.eager_step import eager_step
from engine.cuda.graphs import Buckets, GraphCache, GraphKey
from engine.work import Plan, Work

SaveSink = Callable[[bytes, int, bytes], None]
"""Takes the digest, the group and the bytes of a block that was read out."""


@dataclass(frozen=True, slots=True)
class Graphs:
    """Recorded decode steps.

    Attributes:
        cache: the recordings.
        buckets: which steps are recorded.
        like: what their keys have in common; rows and lengths are filled in.
    """

    cache: GraphCache
    buckets: Buckets
    like: GraphKey

    def key(self, rows: int, longest: int) -> GraphKey | None:
        """Return the key of the bucket a step falls into, or None."""
        found = self.buckets.fitting(rows, longest)
        return None if found is None else self._filled(*found)

    def keys(self) -> list[GraphKey]:
        """Return the keys of all buckets, largest first."""
        return [self._filled(*bucket) for bucket in self.buckets.all()]

    def _filled(self, rows: int, longest: int) -> GraphKey:
        like = self.like
        return GraphKey(
            rows, longest, like.attention, like.dtype, like.kv_dtype, like.windows, like.adapter, logit_rows=rows
        )


class DeviceRunner:
    """Runs steps of one model over one KV pool on a device; a `engine.core.StepRunner`.

    Logits stay on the device and hold until the next call.

    Attributes:
        any_chunks: not a promise of equal bits here. Attention does not care where a prompt is cut, but matrix
            products may in their last bits, as they do for other rows in the step; fixed cuts would not bring
            equal bits back, and would cost the cache every answer and every short chunk.
        decode: the static buffers of decode steps.
        graphs: None where no step is recorded.
        max_rows: most sequences in a recorded step.
    """

    any_chunks = True

    def __init__(self, parts: StepParts, max_rows: int, graphs: Graphs | None, saved: SaveSink) -> None:
        self.parts = parts
        self.kv = parts.kv
        self.model = parts.model
        self.graphs = graphs
        self.max_rows = max_rows
        self.decode = DecodeStep(parts, max_rows)
        self._saved = saved

    @torch.inference_mode()
    def record(self) -> None:
        """Record the decode step of every bucket, largest first; what cannot be recorded will run eagerly."""
        if self.graphs is not None:
            self.decode.fill(())
            self.graphs.cache.record(self.graphs.keys(), lambda key: self.decode.compute(key.rows, key.longest))

    @torch.inference_mode()
    def run(self, plan: Plan) -> torch.Tensor:
        """Carry out the plan's transfers, compute its work and store its keys and values.

        Saved blocks travel while the step computes, and are handed over before this returns.

        Returns:
            fp32 logits [samples, vocabulary], one row per work item that samples, in the order of the work.
        """
        under_way = self.kv.begin_saves(plan.transfers.saves)
        self.kv.restore(plan.transfers.restores)
        self.kv.copy(plan.transfers.copies)
        logits = self._compute(plan.work)
        for save, copy in under_way:
            self._saved(save.digest, save.group, copy.payload())
        return logits

    def _compute(self, work: Sequence[Work]) -> torch.Tensor:
        if not work:
            return self.decode.logits[:0]
        places = self.parts.tables.place([(item.sequence.seq_id, item.sequence.tables) for item in work])
        if self.graphs is not None and all(item.count == 1 for item in work):
            found = self._replayed(work, places, self.graphs)
            if found is not None:
                return found
        return self.model.forward(eager_step(self.parts, work, places))

    def _replayed(self, work: Sequence[Work], places: Sequence[int], graphs: Graphs) -> torch.Tensor | None:
        recording = graphs.cache.find(graphs.key(len(work), max(item.start for item in work) + 1))
        if recording is None:
            return None
        self.decode.fill([_decode_row(item, place) for item, place in zip(work, places, strict=True)])
        recording.replay()
        sampling = [row for row, item in enumerate(work) if item.samples]
        if len(sampling) == len(work):
            return self.decode.logits[: len(work)]
        return self.decode.logits[torch.tensor(sampling).to(self.decode.logits.device)]


def _decode_row(item: Work, place: int) -> DecodeRow:
    (token_id,) = item.sequence.tokens(item.start, item.start + 1)
    return DecodeRow(token_id, item.start, place, stored=item.start >= item.write_from)
