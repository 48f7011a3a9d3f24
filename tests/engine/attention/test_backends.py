"""Every attention backend in the table gives the textbook's numbers and touches nothing it should not."""

from importlib.util import find_spec

import pytest
import torch

from engine.attention import ATTENTION, attention_class
from engine.attention.contract import Segment
from engine.attention.paged import KvShape, PagedKV
from engine.errors import EngineError
from engine.kv.contract import NULL_BLOCK, KvGroup
from tests.engine import tiny
from tests.engine.attention.pools import DEVICE

WINDOW, SIZE, DIM, SCALE = 10, 4, 8, 0.3
GROUPS = (KvGroup((0,)), KvGroup((1,), window=WINDOW))
BLOCKS = 64
BACKENDS = [
    pytest.param(
        name,
        marks=[
            pytest.mark.slow,  # in Triton's interpreter, that is
            pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed"),
        ]
        if name == "triton"
        else [],
    )
    for name in ATTENTION
]
HEADS = {"mha": (4, 4), "gqa": (6, 2), "mqa": (3, 1)}


class Story:
    """One sequence: its rows, and what attention over all of them gives by the textbook."""

    def __init__(self, length: int, heads: int, kv_heads: int, blocks: list[int]) -> None:
        generator = torch.Generator().manual_seed(length)
        rows = torch.randn(length, heads + 2 * kv_heads, DIM, generator=generator)
        self.rows = rows.to(DEVICE)
        self.blocks = blocks
        self.expected = [attended(rows, heads, kv_heads, group.window).to(DEVICE) for group in GROUPS]

    def tables(self, start: int) -> list[list[int]]:
        """A table per group; what has left the window at `start` is gone."""
        gone = max(0, start + 1 - WINDOW) // SIZE
        return [self.blocks, [NULL_BLOCK] * gone + self.blocks[gone:]]


def attended(rows: torch.Tensor, heads: int, kv_heads: int, window: int | None) -> torch.Tensor:
    query, keys, values = (part.double() for part in rows.split((heads, kv_heads, kv_heads), dim=1))
    keys, values = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", query, keys) * SCALE
    distance = torch.arange(len(rows))[:, None] - torch.arange(len(rows))
    hidden = (distance < 0) | (distance >= (window or len(rows)))
    chances = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", chances, values).flatten(1).float()


def stories(heads: int, kv_heads: int) -> list[Story]:
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(3)).tolist()
    lengths = (1, 3, 17, 40, 9)
    return [Story(length, heads, kv_heads, [order.pop() for _ in range(-(-length // SIZE))]) for length in lengths]


def make(heads: int, kv_heads: int, dtype: str = "fp32", backend: str = "sdpa"):  # noqa: ANN201
    kv = PagedKV(GROUPS, (BLOCKS, BLOCKS), KvShape(kv_heads, DIM, SIZE, dtype, DEVICE))
    tiny.poison(kv)
    return attention_class(backend)(kv, heads, SCALE), kv


def rows_of(parts: list[tuple[Story, int, int]], pad: int = 2) -> torch.Tensor:
    rows = torch.cat([story.rows[start:end] for story, start, end in parts])
    return torch.cat((rows, rows.new_zeros(pad, *rows.shape[1:])))


def segments_of(parts: list[tuple[Story, int, int]]) -> list[Segment]:
    found, row = [], 0
    for story, start, end in parts:
        found.append(Segment(row, start, end - start, start, story.tables(start)))
        row += end - start
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("chunk", [1, 7, 16, 40])
def test_chunks_of_any_size_give_the_textbook(backend: str, kind: str, chunk: int) -> None:
    heads, kv_heads = HEADS[kind]
    attention, _ = make(heads, kv_heads, backend=backend)
    told = stories(heads, kv_heads)
    for start in range(0, 40, chunk):
        parts = [(story, start, min(start + chunk, len(story.rows))) for story in told if len(story.rows) > start]
        attend = attention.step(segments_of(parts))
        for layer in range(len(GROUPS)):
            found = attend(layer, rows_of(parts))
            expected = torch.cat([story.expected[layer][start:end] for story, start, end in parts])
            torch.testing.assert_close(found[:-2], expected, rtol=1e-4, atol=1e-5)
            assert found[-2:].isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_has_the_same_bits_in_any_company(backend: str) -> None:
    attention, _ = make(6, 2, backend=backend)
    told = stories(6, 2)
    parts = [(story, 0, len(story.rows)) for story in told]
    together = [attention.step(segments_of(parts))(layer, rows_of(parts)).clone() for layer in range(2)]
    row = 0
    for part in parts:
        count = len(part[0].rows)
        for layer in range(2):
            alone = attention.step(segments_of([part]))(layer, rows_of([part]))
            assert torch.equal(alone[:count], together[layer][row : row + count])
        row += count


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_before_write_from_are_read_and_not_written(backend: str) -> None:
    """Transformers PR#42094, Rapid-MLX#1124: after a full hit the last token is computed, but stored only once."""
    attention, kv = make(4, 4, backend=backend)
    story = stories(4, 4)[3]
    whole = [(story, 0, 40)]
    for layer in range(2):
        attention.step(segments_of(whole))(layer, rows_of(whole))
    before = [pool.values.clone() for pool in kv.pools]
    for start, write_from in ((39, 40), (32, 40), (32, 36)):
        tables = story.tables(start)
        attend = attention.step([Segment(0, start, 40 - start, write_from, tables)])
        for layer in range(2):
            changed = story.rows[start:].clone()
            changed[:, 4:] = 7.0
            changed[write_from - start :] = story.rows[write_from:]
            found = attend(layer, changed)
            torch.testing.assert_close(found, story.expected[layer][start:], rtol=1e-4, atol=1e-5)
    for pool, values in zip(kv.pools, before, strict=True):
        torch.testing.assert_close(pool.values, values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("fp16", 2e-3), ("bf16", 2e-2), ("int8", 3e-2), ("fp8", 2e-1)])
def test_smaller_formats_stay_close(backend: str, dtype: str, tolerance: float) -> None:
    attention, _ = make(6, 2, dtype, backend)
    parts = [(story, 0, len(story.rows)) for story in stories(6, 2)]
    attend = attention.step(segments_of(parts))
    for layer in range(2):
        expected = torch.cat([story.expected[layer] for story, _, _ in parts])
        torch.testing.assert_close(attend(layer, rows_of(parts, 0)), expected, rtol=0, atol=tolerance * 2)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(EngineError, match="'warp' is unknown; known: sdpa"):
        attention_class("warp")
