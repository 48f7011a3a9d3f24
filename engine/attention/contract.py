"""What a model needs of attention, whatever computes it.

Legend: R rows of a step, H query heads, K KV heads, D head size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.attention.paged import PagedKV

LayerAttention = Callable[[int, torch.Tensor], torch.Tensor]
"""From a layer's index and its rows [R, H + 2K, D] (queries, keys, values; queries and keys turned) to [R, H * D].

Stores the keys and values first. The result is valid until the next layer's call; rows that belong to no segment
are finite in it. A row's result must not depend on the rows of other segments.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one sequence in a step.

    Attributes:
        row: first row in the step.
        start: position of the first row.
        count: how many rows.
        write_from: keys and values of positions before it are in the pool already and are not stored.
        tables: a block table per KV group, covering every position the rows look at or write.
    """

    row: int
    start: int
    count: int
    write_from: int
    tables: Sequence[Sequence[int]]

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.start + self.count


class AttentionBackend(Protocol):
    """Attention over one KV pool. Contract test: tests/engine/attention/test_backends.py."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        """Take the pool, the number of query heads, and what multiplies scores."""
        ...

    def step(self, segments: Sequence[Segment]) -> LayerAttention:
        """Prepare what all layers of a step share; segments lie row behind row from row 0."""
        ...
