"""What a decoder does to each row between its matrix products, one kernel each instead of five."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.pool import power_of_two

_GATED = 1024
_WIDE = 2048


@triton.jit
def _add_norm(
    stream: tl.tensor,
    delta: tl.tensor,
    delta_gain: tl.tensor,
    gain: tl.tensor,
    out: tl.tensor,
    width: int,
    epsilon: float,
    BLOCK: tl.constexpr,
    ADDS: tl.constexpr,
    NORMS_DELTA: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    total = tl.load(stream + row * width + columns, mask=inside, other=0.0)
    if ADDS:
        added = tl.load(delta + row * width + columns, mask=inside, other=0.0).to(tl.float32)
        if NORMS_DELTA:
            spread = tl.sum(added * added, axis=0) / width + epsilon
            added = added / tl.sqrt(spread) * tl.load(delta_gain + columns, mask=inside, other=0.0)
        total = total + added
        tl.store(stream + row * width + columns, total, mask=inside)
    spread = tl.sum(total * total, axis=0) / width + epsilon
    normed = total / tl.sqrt(spread) * tl.load(gain + columns, mask=inside, other=0.0)
    tl.store(out + row * width + columns, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _turn(
    rows: tl.tensor,
    positions: tl.tensor,
    table: tl.tensor,
    gains: tl.tensor,
    row_stride: int,
    head_stride: int,
    epsilon: float,
    DIM: tl.constexpr,
    PAIRS_BLOCK: tl.constexpr,
    NORMS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    pairs = tl.arange(0, PAIRS_BLOCK)
    inside = pairs < DIM // 2
    first = rows + row * row_stride + head * head_stride + 2 * pairs
    real = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    imaginary = tl.load(first + 1, mask=inside, other=0.0).to(tl.float32)
    if NORMS:
        shrink = 1.0 / tl.sqrt(tl.sum(real * real + imaginary * imaginary, axis=0) / DIM + epsilon)
        real = real * shrink * tl.load(gains + head * DIM + 2 * pairs, mask=inside, other=0.0)
        imaginary = imaginary * shrink * tl.load(gains + head * DIM + 2 * pairs + 1, mask=inside, other=0.0)
    angle = table + tl.load(positions + row) * DIM + 2 * pairs
    cosine = tl.load(angle, mask=inside, other=0.0)
    sine = tl.load(angle + 1, mask=inside, other=0.0)
    tl.store(first, (real * cosine - imaginary * sine).to(rows.dtype.element_ty), mask=inside)
    tl.store(first + 1, (real * sine + imaginary * cosine).to(rows.dtype.element_ty), mask=inside)


@triton.jit
def _gate(both: tl.tensor, out: tl.tensor, width: int, BLOCK: tl.constexpr, SILU: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(both + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    if SILU:
        opened = gate * tl.sigmoid(gate)
    else:
        # gelu by tanh is x * sigmoid(2 u), as tanh(u) = 2 sigmoid(2 u) - 1.
        opened = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    tl.store(out + row * width + columns, (opened * up).to(out.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class TritonRowOps:
    """See `engine.cuda.row_ops.RowOps`; tensors are contiguous, rows to be turned only in D."""

    epsilon: float
    dtype: torch.dtype
    activation: str

    def add_norm(
        self, stream: torch.Tensor, delta: torch.Tensor | None, delta_gain: torch.Tensor | None, gain: torch.Tensor
    ) -> torch.Tensor:
        """Add to the stream in place, and return its norm."""
        rows, width = stream.shape
        out = torch.empty(rows, width, dtype=self.dtype, device=stream.device)
        _add_norm[(rows,)](
            stream,
            out if delta is None else delta,
            gain if delta_gain is None else delta_gain,
            gain,
            out,
            width,
            self.epsilon,
            BLOCK=power_of_two(width),
            ADDS=delta is not None,
            NORMS_DELTA=delta_gain is not None,
            num_warps=4 if width <= _WIDE else 8,
        )
        return out

    def turn(
        self, rows: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, gains: torch.Tensor | None
    ) -> None:
        """Norm heads where the family does, and turn them by their position, in place."""
        count, heads, dim = rows.shape
        _turn[(count, heads)](
            rows,
            positions,
            table,
            table if gains is None else gains,
            rows.stride(0),
            rows.stride(1),
            self.epsilon,
            DIM=dim,
            PAIRS_BLOCK=power_of_two(dim // 2),
            NORMS=gains is not None,
            num_warps=1,
        )

    def gate(self, both: torch.Tensor) -> torch.Tensor:
        """Return activation(gate) * up."""
        rows, width = both.shape[0], both.shape[1] // 2
        out = torch.empty(rows, width, dtype=both.dtype, device=both.device)
        _gate[(rows, triton.cdiv(width, _GATED))](
            both, out, width, BLOCK=_GATED, SILU=self.activation == "silu", num_warps=4
        )
        return out
