"""The row kernels in Triton against plain torch."""

import pytest
import torch

from engine.cuda.row_ops import RowOps, TorchRowOps
from tests.engine.attention.pools import DEVICE

pytest.importorskip("triton", reason="triton is not installed")

from engine.attention.triton_kernels.rows import TritonRowOps

WIDTH = 80


def both_ops(activation: str = "silu") -> tuple[RowOps, RowOps]:
    return TorchRowOps(1e-5, torch.float32, activation), TritonRowOps(1e-5, torch.float32, activation)


def draw(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("post_norm", [True, False])
def test_the_stream_grows_and_its_norm_comes_back(adds: bool, post_norm: bool) -> None:
    stream, delta, gain, post = draw(3, WIDTH), draw(3, WIDTH, seed=1), draw(WIDTH, seed=2), draw(WIDTH, seed=3)
    grown = []
    for ops in both_ops():
        copy = stream.clone()
        out = ops.add_norm(copy, delta if adds else None, post if post_norm else None, gain)
        grown.append((copy, out))
    torch.testing.assert_close(grown[1], grown[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(grown[0][0], stream) == (not adds)


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("dim", [64, 80])
def test_heads_are_normed_and_turned_in_place(normed: bool, dim: int) -> None:
    angles = draw(50, dim // 2, seed=4)
    table = torch.stack((angles.cos(), angles.sin()), -1).flatten(-2).contiguous()
    positions = torch.tensor([3, 0, 49], device=DEVICE)
    gains = draw(5, dim, seed=5) if normed else None
    found = []
    for ops in both_ops():
        projected = draw(3, 7, dim)
        ops.turn(projected[:, :5], positions, table, gains)
        found.append(projected)
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(found[1][:, 5:], draw(3, 7, dim)[:, 5:])
    if not normed:
        torch.testing.assert_close(found[1].norm(dim=-1), draw(3, 7, dim).norm(dim=-1))


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gates_open(activation: str) -> None:
    both = draw(3, 2 * 1100) * 3
    plain, kernel = (ops.gate(both) for ops in both_ops(activation))
    torch.testing.assert_close(kernel, plain, rtol=1e-5, atol=1e-5)
