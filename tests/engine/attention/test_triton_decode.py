"""Decode attention in Triton against the textbook, and a row alone against the same row in company."""

from dataclasses import replace

import pytest
import torch

from tests.engine.attention.pools import BLOCK_SIZE, DEVICE, Case, Shape, case

pytest.importorskip("triton", reason="triton is not installed")

from engine.attention.triton_kernels.decode import (
    MOST_SPLITS,
    DecodeBatch,
    decode_attention,
    splits_for,
)
from engine.attention.triton_kernels.pool import LayerPool

KINDS = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn]
SHAPES = [Shape(4, 4, 64), Shape(6, 2, 80), Shape(8, 1, 128), Shape(4, 2, 256), Shape(9, 3, 64, window=7)]
FAST = (1, 4)
PAIRS = [
    pytest.param(shape, kind, marks=() if column == row in FAST else pytest.mark.slow)
    for row, shape in enumerate(SHAPES)
    for column, kind in enumerate(KINDS)
]
"""Every shape with every kind; the interpreter is slow, so the fast suite takes two of them."""


def run(found: Case, splits: int | None = None) -> torch.Tensor:
    window = found.shape.window
    longest = int(found.lengths.max())
    batch = DecodeBatch(
        found.tables, found.lengths.to(DEVICE), splits or splits_for(min(longest, window or longest))
    )
    out = torch.full_like(found.query, torch.nan)
    pool = LayerPool(found.values, found.scales, BLOCK_SIZE)
    decode_attention(found.query, pool, batch, out, score_scale=found.shape.dim**-0.5, window=window)
    return out


@pytest.mark.parametrize(("shape", "kind"), PAIRS, ids=str)
def test_it_equals_the_textbook(shape: Shape, kind: torch.dtype) -> None:
    found = case(shape, kind, [(1, 1), (1, 5), (1, 140)])
    torch.testing.assert_close(run(found).double(), found.wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [Shape(6, 2, 64), Shape(6, 2, 64, window=40)], ids=str)
def test_a_row_has_the_same_bits_alone_and_in_company(shape: Shape) -> None:
    found = case(shape, torch.float16, [(1, 3), (1, 129), (1, 300)])
    together = run(found)
    for row in range(len(found.lengths)):
        alone = run(found.only(row))
        assert torch.equal(alone, together[row : row + 1])
        assert torch.equal(alone, run(found.only(row), splits=MOST_SPLITS))


def test_a_padded_row_yields_zeros_and_reads_nothing() -> None:
    found = case(Shape(4, 2, 64), torch.float32, [(1, 9), (1, 200)])
    lengths, tables = found.lengths.clone(), found.tables.clone()
    lengths[0], tables[0] = 0, -1
    found = replace(found, lengths=lengths, tables=tables)
    for splits in (2, MOST_SPLITS):
        assert torch.equal(run(found, splits)[0], torch.zeros_like(found.query[0]))


def test_splits_depend_on_the_length_bucket_alone() -> None:
    assert [splits_for(longest) for longest in (0, 1, 128, 129, 512, 513, 2048, 10**6)] == [
        1,
        1,
        1,
        2,
        4,
        8,
        16,
        16,
    ]


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_half_precision_dots_stay_close(shape: Shape, kind: torch.dtype, dtype: torch.dtype) -> None:
    found = case(shape, kind, [(1, 1), (1, 5), (1, 140), (1, 5000)])
    half = run(replace(found, query=found.query.to(dtype)))
    torch.testing.assert_close(half.double(), found.wanted, atol=3e-2, rtol=3e-2)
