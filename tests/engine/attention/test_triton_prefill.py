"""Prefill attention in Triton against the textbook, whatever the chunks, the company and the cut."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tests.engine.attention.pools import BLOCK_SIZE, DEVICE, Case, Shape, case

pytest.importorskip("triton", reason="triton is not installed")

from engine.attention.triton_kernels.pool import LayerPool
from engine.attention.triton_kernels.prefill import PrefillBatch, prefill_attention

KINDS = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn]
SHAPES = [Shape(2, 2, 64), Shape(6, 2, 80), Shape(4, 1, 128), Shape(2, 1, 256), Shape(3, 1, 64, window=7)]
FAST = (1, 4)
PAIRS = [
    pytest.param(shape, kind, marks=() if column == row in FAST else pytest.mark.slow)
    for row, shape in enumerate(SHAPES)
    for column, kind in enumerate(KINDS)
]
"""Every shape with every kind; the interpreter is slow, so the fast suite takes two of them."""
CHUNKS = [(5, 5), (3, 90), (150, 150), (1, 9), (70, 133)]
"""Rows, and tokens in all."""


def run(found: Case) -> torch.Tensor:
    batch = PrefillBatch(
        found.tables,
        found.lengths.to(DEVICE),
        torch.tensor(found.starts, dtype=torch.int32, device=DEVICE),
        max(end - start for start, end in pairwise(found.starts)),
    )
    out = torch.full_like(found.query, torch.nan)
    pool = LayerPool(found.values, found.scales, BLOCK_SIZE)
    prefill_attention(found.query, pool, batch, out, score_scale=found.shape.dim**-0.5, window=found.shape.window)
    return out


@pytest.mark.parametrize(("shape", "kind"), PAIRS, ids=str)
def test_it_equals_the_textbook(shape: Shape, kind: torch.dtype) -> None:
    found = case(shape, kind, CHUNKS if shape == SHAPES[0] else CHUNKS[:2])
    torch.testing.assert_close(run(found).double(), found.wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 40])
def test_a_row_has_the_same_bits_alone_in_company_and_in_other_chunks(window: int | None) -> None:
    found = case(Shape(2, 1, 64, window), torch.float16, [(150, 150), (9, 80)])
    together = run(found)
    for row, rows in enumerate((slice(150), slice(150, 159))):
        assert torch.equal(run(found.only(row)), together[rows])
    # The interpreter multiplies with BLAS, whose rows are alike only at multiples of its own tile.
    whole = found.only(0)
    cuts = (0, 32, 128, 150) if DEVICE == "cpu" else (0, 17, 140, 150)
    for start, end in pairwise(cuts):
        chunk = replace(
            whole,
            query=whole.query[start:end],
            lengths=torch.tensor([end], dtype=torch.int32),
            starts=[0, end - start],
        )
        assert torch.equal(run(chunk), together[start:end])


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_half_precision_dots_stay_close(shape: Shape, kind: torch.dtype, dtype: torch.dtype) -> None:
    found = case(shape, kind, [*CHUNKS, (300, 3000)])
    half = run(replace(found, query=found.query.to(dtype)))
    torch.testing.assert_close(half.double(), found.wanted, atol=3e-2, rtol=3e-2)
