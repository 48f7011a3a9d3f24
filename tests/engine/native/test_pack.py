"""Packed weights are the file's weights, and a product's bits do not depend on its company."""

import mmap

import gguf
import numpy as np
import pytest
import torch

from engine.kernels import HalfLinear
from engine.loader.matrix import Matrix
from engine.native.library import INPUT_GRAIN, PANEL, Library
from engine.native.pack import KINDS, Packed, pack

SCALES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "Q3_K": (108,),
}
"""Where a block keeps its fp16 scales."""

PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NARROWEST = {
    "Q4_0": "Q4H",
    "Q4_1": "Q4H",
    "Q5_0": "Q8H",
    "Q5_1": "Q8HM",
    "Q8_0": "Q8H",
    "Q4_K": "Q4S",
    "Q5_K": "Q8SM",
    "Q6_K": "Q8S",
    "Q3_K": "F32",
    "F32": "F32",
    "F16": "F16",
    "BF16": "BF16",
}


def random_matrix(kind: str, rows: int, columns: int, seed: int = 0) -> Matrix:
    generator = np.random.default_rng(seed)
    if kind in PLAIN:
        values = torch.from_numpy(generator.normal(size=(rows, columns)).astype(np.float32))
        return Matrix.of(values.to(PLAIN[kind]))
    weights, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = generator.integers(0, 256, (rows, columns // weights, size), dtype=np.uint8)
    for at in SCALES[kind]:
        scales = generator.normal(0, 0.02, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return Matrix(kind, blocks.reshape(rows, -1), columns)


def product(library: Library, packed: Packed, rows: torch.Tensor) -> torch.Tensor:
    count, columns = rows.shape
    padded = torch.zeros(count, -(-columns // INPUT_GRAIN) * INPUT_GRAIN)
    padded[:, :columns] = rows
    out = torch.empty(count, packed.view.panels * PANEL)
    library.multiply(packed.view, padded.data_ptr(), count, out.data_ptr())
    return out[:, : packed.view.outputs]


@pytest.mark.parametrize("kind", [*SCALES, *PLAIN])
@pytest.mark.parametrize(("rows", "columns"), [(16, 256), (37, 768)])
def test_weights_come_back_bit_for_bit(library: Library, kind: str, rows: int, columns: int) -> None:
    matrix = random_matrix(kind, rows, columns)
    packed = pack(matrix)
    out = torch.empty(rows, columns)
    library.dense(packed.view, out.data_ptr())
    assert torch.equal(out, matrix.dense())
    assert packed.view.kind == KINDS[NARROWEST[kind]]


@pytest.mark.parametrize("columns", [7, 10, 48, 200])
def test_plain_weights_may_have_any_number_of_columns(library: Library, columns: int) -> None:
    matrix = random_matrix("F32", 19, columns)
    packed = pack(matrix)
    out = torch.empty(19, columns)
    library.dense(packed.view, out.data_ptr())
    assert torch.equal(out, matrix.dense())
    rows = torch.randn(5, columns, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(product(library, packed, rows), rows @ matrix.dense().T, rtol=1e-4, atol=1e-4)


def test_scales_whose_least_value_does_not_fit_a_half_are_kept_in_floats(library: Library) -> None:
    matrix = random_matrix("Q4_0", 16, 64)
    matrix.data[3, :2] = np.array([60000], np.float16).view(np.uint8)
    packed = pack(matrix)
    assert packed.view.kind == KINDS["Q4S"]
    out = torch.empty(16, 64)
    library.dense(packed.view, out.data_ptr())
    assert torch.equal(out, matrix.dense())


def test_fp32_weights_may_be_narrowed_to_halves(library: Library) -> None:
    matrix = random_matrix("F32", 16, 40)
    packed = pack(matrix, narrow=True)
    out = torch.empty(16, 40)
    library.dense(packed.view, out.data_ptr())
    assert packed.view.kind == KINDS["F16"]
    assert torch.equal(out, matrix.dense().half().float())
    assert pack(random_matrix("BF16", 16, 40), narrow=True).view.kind == KINDS["BF16"]


@pytest.mark.parametrize("kind", [*SCALES, *PLAIN])
def test_a_row_has_the_same_bits_in_any_company(library: Library, kind: str) -> None:
    matrix = random_matrix(kind, 53, 768)
    packed = pack(matrix)
    rows = torch.randn(40, 768, generator=torch.Generator().manual_seed(2))
    whole = product(library, packed, rows)
    exact = rows.double() @ matrix.dense().double().T
    scale = rows.abs().double() @ matrix.dense().abs().double().T
    assert ((whole - exact).abs() <= 1e-5 * scale).all()
    for count in (*range(1, 26), 39):
        assert torch.equal(product(library, packed, rows[:count]), whole[:count])
        assert torch.equal(product(library, packed, rows[-count:]), whole[-count:])


def test_a_sum_is_a_chain_of_fused_additions_over_ascending_inputs(library: Library) -> None:
    """The promise every bit test rests on, spelt out: double precision makes each fused step, then rounds once."""
    matrix = random_matrix("Q4_1", 16, 320)
    rows = torch.randn(9, 320, generator=torch.Generator().manual_seed(3))
    found = product(library, pack(matrix), rows)
    weights = matrix.dense().double()
    total = torch.zeros(9, 16)
    for k in range(320):
        total = (total.double() + rows[:, k : k + 1].double() * weights[:, k]).float()
    assert torch.equal(found, total)


def test_exponentials_are_within_two_units_in_the_last_place(library: Library) -> None:
    values = torch.cat((torch.linspace(-87.2, 88.7, 200_000), torch.linspace(-1e-3, 1e-3, 8_000)))
    out = torch.empty_like(values)
    library.exp(values.data_ptr(), len(values), out.data_ptr())
    exact = values.double().exp()
    spacing = torch.from_numpy(np.spacing(exact.float().numpy())).double()
    assert ((out - exact).abs() / spacing).max() <= 2
    edges = torch.tensor([-torch.inf, -100.0, -0.0, 0.0, 89.0, torch.inf, torch.nan, -88.0])
    found = torch.empty(8)
    library.exp(edges.data_ptr(), 8, found.data_ptr())
    assert found[:6].tolist() == [0, 0, 1, 1, torch.inf, torch.inf]
    assert found[6].isnan()
    assert found[7] == 0


def test_a_kernel_without_large_pages_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 9999)
    packed = pack(Matrix.of(torch.ones(16, 8)))
    assert np.frombuffer(packed.memory, np.float32)[: 16 * 8].tolist() == [1.0] * (16 * 8)


def test_weights_too_large_for_halves_are_the_largest_there_is() -> None:
    """As in torch's fp16 kernel; infinity would make NaN of every answer."""
    weight = torch.full((16, 32), 1e5)
    rows = torch.zeros(3, 32)
    rows[:, 0] = 1
    packed = pack(Matrix.of(weight), narrow=True)
    halves = np.frombuffer(packed.memory, np.float16)[: weight.numel()]
    assert set(halves.tolist()) == set(HalfLinear(weight, None)(rows).flatten().tolist()) == {65504.0}
