"""Stored weights mean what their format says, block by block."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from engine.errors import ModelError
from engine.loader.gguf_file import GgufFile
from engine.loader.matrix import Matrix
from tests.engine.gguf_files import SCALE_OFFSETS, finish, random_blocks

COLUMNS = 512


def half(block: np.ndarray, at: int) -> float:
    return float(block[at : at + 2].view("<f2")[0])


def q4_0(block: np.ndarray) -> list[float]:
    nibbles = [*(block[2:18] & 15), *(block[2:18] >> 4)]
    return [half(block, 0) * (int(nibble) - 8) for nibble in nibbles]


def q4_1(block: np.ndarray) -> list[float]:
    nibbles = [*(block[4:20] & 15), *(block[4:20] >> 4)]
    return [half(block, 0) * int(nibble) + half(block, 2) for nibble in nibbles]


def q5_0(block: np.ndarray) -> list[float]:
    high = int(block[2:6].view("<u4")[0])
    nibbles = [*(block[6:22] & 15), *(block[6:22] >> 4)]
    return [half(block, 0) * ((int(low) | (high >> i & 1) << 4) - 16) for i, low in enumerate(nibbles)]


def q8_0(block: np.ndarray) -> list[float]:
    return [half(block, 0) * int(value) for value in block[2:34].view(np.int8)]


def q4_k(block: np.ndarray) -> list[float]:
    """Eight groups of 32 with six-bit scales and minima, packed as the format's description has it."""
    packed = [int(byte) for byte in block[4:16]]
    found = []
    for group in range(8):
        if group < 4:
            scale, least = packed[group] & 63, packed[group + 4] & 63
        else:
            scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4
            least = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4
        quants = block[16 + group // 2 * 32 :][:32] >> (group % 2 * 4) & 15
        found += [half(block, 0) * scale * int(quant) - half(block, 2) * least for quant in quants]
    return found


def q6_k(block: np.ndarray) -> list[float]:
    """Sixteen groups of 16; low four bits in `ql`, high two in `qh`."""
    scales, found = block[192:208].view(np.int8), []
    for index in range(256):
        part, at = divmod(index, 128)
        row, column = divmod(at, 32)
        low = int(block[part * 64 + row % 2 * 32 + column]) >> (row // 2 * 4) & 15
        high = int(block[128 + part * 32 + column]) >> (row * 2) & 3
        found.append(half(block, 208) * int(scales[index // 16]) * ((low | high << 4) - 32))
    return found


FORMULAS = {"Q4_0": q4_0, "Q4_1": q4_1, "Q5_0": q5_0, "Q8_0": q8_0, "Q4_K": q4_k, "Q6_K": q6_k}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("rows", [1, 7, 64, 96])
def test_quantised_blocks_stand_for_what_the_format_says(tmp_path: Path, name: str, rows: int) -> None:
    kind = gguf.GGMLQuantizationType[name]
    stored = random_blocks(kind, rows, COLUMNS)
    writer = gguf.GGUFWriter(tmp_path / "q.gguf", "llama")
    writer.add_tensor("w", stored, raw_dtype=kind)
    finish(writer)
    matrix = GgufFile(tmp_path / "q.gguf").matrix("w")
    assert (matrix.kind, matrix.rows, matrix.columns) == (name, rows, COLUMNS)
    np.testing.assert_array_equal(matrix.data, stored)
    size = gguf.GGML_QUANT_SIZES[kind][1]
    for row in {0, rows // 2, rows - 1}:
        blocks = stored[row].reshape(-1, size)
        expected = np.concatenate([FORMULAS[name](block) for block in blocks])
        np.testing.assert_allclose(matrix.dense()[row], expected, rtol=1e-5, atol=1e-6)


def test_each_tested_kind_has_its_scales_in_place() -> None:
    assert set(SCALE_OFFSETS) == set(FORMULAS)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_plain_tensors_are_viewed_not_copied(kind: torch.dtype) -> None:
    tensor = torch.randn(6, 10).to(kind)
    matrix = Matrix.of(tensor)
    tensor[0, 0] = 3.0
    assert torch.equal(matrix.dense(), tensor.float())
    dense = matrix.dense()
    dense.zero_()
    assert tensor.any()


def test_rows_are_picked_in_any_order() -> None:
    matrix = Matrix("Q8_0", random_blocks(gguf.GGMLQuantizationType.Q8_0, 9, 64), 64)
    order = [8, 0, 0, 3]
    assert torch.equal(matrix.reordered(order).dense(), matrix.dense()[order])


def test_unknown_types_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"torch\.int32 are not supported"):
        Matrix.of(torch.zeros(2, 2, dtype=torch.int32))
    writer = gguf.GGUFWriter(tmp_path / "q.gguf", "llama")
    writer.add_tensor("w", np.zeros((2, 8), dtype=np.int32))
    finish(writer)
    with pytest.raises(ModelError, match="tensor w has unsupported type I32"):
        GgufFile(tmp_path / "q.gguf").matrix("w")
