"""Paged pools with known contents, and attention over them by the textbook."""

from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LIMITS = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
BLOCK_SIZE = 4


@dataclass(frozen=True)
class Shape:
    """What attention is asked of."""

    heads: int
    kv_heads: int
    dim: int
    window: int | None = None


@dataclass(frozen=True)
class Case:
    """Queries [R, H, D] over a paged pool, and what should come out.

    Attributes:
        lengths: int32 [B], on the CPU.
        starts: first row of each sequence, and the end of the last.
    """

    shape: Shape
    query: torch.Tensor
    values: torch.Tensor
    scales: torch.Tensor | None
    tables: torch.Tensor
    lengths: torch.Tensor
    starts: list[int]
    wanted: torch.Tensor

    def only(self, row: int) -> "Case":
        """The case with one of its sequences alone."""
        rows = slice(self.starts[row], self.starts[row + 1])
        one = slice(row, row + 1)
        return replace(
            self,
            query=self.query[rows],
            tables=self.tables[one],
            lengths=self.lengths[one],
            starts=[0, rows.stop - rows.start],
            wanted=self.wanted[rows],
        )


def case(shape: Shape, kind: torch.dtype, chunks: list[tuple[int, int]], seed: int = 0) -> Case:
    """A poisoned pool that holds what chunks may look at and nothing more; a chunk is (rows, tokens in all)."""
    generator = torch.Generator().manual_seed(seed)
    table, blocks = tables([total for _, total in chunks], generator)
    values, scales = poisoned(blocks * BLOCK_SIZE, shape, kind)
    queries, wanted = [], []
    for row, (count, total) in enumerate(chunks):
        rows = torch.randn(total, 2 * shape.kv_heads, shape.dim, generator=generator).to(DEVICE)
        queries.append(torch.randn(count, shape.heads, shape.dim, generator=generator).to(DEVICE))
        kept, kept_scales = quantised(rows, kind)
        slots = slots_of(table[row], total)
        first = max(0, total - count + 1 - (shape.window or total))
        values[slots[first:]] = kept[first:]
        if scales is not None and kept_scales is not None:
            scales[slots[first:]] = kept_scales[first:]
        table[row, : first // BLOCK_SIZE] = -1
        wanted.append(attended(queries[-1], kept, kept_scales, shape))
    return Case(
        shape,
        torch.cat(queries),
        values,
        scales,
        table,
        torch.tensor([total for _, total in chunks], dtype=torch.int32),
        [0, *accumulate(count for count, _ in chunks)],
        torch.cat(wanted),
    )


def quantised(rows: torch.Tensor, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows [..., D] as a pool of that kind keeps them, and their scales."""
    if kind not in LIMITS:
        return rows.to(kind), None
    scales = rows.float().abs().amax(-1) / LIMITS[kind]
    divided = rows.float() / torch.where(scales > 0, scales, 1.0).unsqueeze(-1)
    return (divided.round() if kind == torch.int8 else divided).to(kind), scales


def poisoned(slots: int, shape: Shape, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    """An unused pool that would spoil whatever reads it: NaN where the kind has one, NaN scales where not."""
    size = (slots, 2 * shape.kv_heads, shape.dim)
    if kind == torch.int8:
        values = torch.full(size, -128, dtype=kind, device=DEVICE)
    else:
        values = torch.full(size, torch.nan, device=DEVICE).to(kind)
    scales = torch.full(size[:2], torch.nan, device=DEVICE) if kind in LIMITS else None
    return values, scales


def tables(lengths: list[int], generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """Shuffled block tables int32 [B, widest], -1 past a sequence's own blocks, and how many blocks there are."""
    counts = [-(-length // BLOCK_SIZE) for length in lengths]
    order = torch.randperm(sum(counts) + 3, generator=generator).tolist()
    found = torch.full((len(lengths), max(*counts, 1)), -1, dtype=torch.int32)
    for row, count in enumerate(counts):
        found[row, :count] = torch.tensor([order.pop() for _ in range(count)], dtype=torch.int32)
    return found.to(DEVICE), sum(counts) + 3


def slots_of(table: torch.Tensor, length: int) -> torch.Tensor:
    """Slots of positions 0 .. length - 1."""
    offsets = torch.arange(BLOCK_SIZE, device=table.device)
    return (table.long()[:, None] * BLOCK_SIZE + offsets).view(-1)[:length]


def attended(query: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor | None, shape: Shape) -> torch.Tensor:
    """Attention of the last T positions, fp64: query [T, H, D], rows [N, 2K, D] as kept -> [T, H, D]."""
    kept = rows.double() if scales is None else rows.double() * scales.double().unsqueeze(-1)
    keys, values = (
        part.repeat_interleave(shape.heads // shape.kv_heads, 1).transpose(0, 1)
        for part in kept.split(shape.kv_heads, 1)
    )
    total, count = len(rows), len(query)
    position = torch.arange(total - count, total, device=query.device)[:, None]
    token = torch.arange(total, device=query.device)[None]
    seen = (token <= position) & (token > position - (shape.window or total + 1))
    found = functional.scaled_dot_product_attention(
        query.double().transpose(0, 1), keys, values, attn_mask=seen, scale=shape.dim**-0.5
    )
    return found.transpose(0, 1)
