"""What a decoder does to each row between its matrix products.

Legend: R rows, C hidden size, D head size, F feed-forward size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch.nn import functional

_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}


class RowOps(Protocol):
    """Sums are fp32. Contract test: tests/engine/attention/test_triton_rows.py."""

    def add_norm(
        self, stream: torch.Tensor, delta: torch.Tensor | None, delta_gain: torch.Tensor | None, gain: torch.Tensor
    ) -> torch.Tensor:
        """Add to the residual stream in place, and return the RMS norm of what it is then.

        Args:
            stream: fp32 [R, C].
            delta: [R, C], or None to add nothing.
            delta_gain: fp32 [C], of the norm the delta gets before it is added; None for none.
            gain: fp32 [C].
        """
        ...

    def turn(
        self, rows: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, gains: torch.Tensor | None
    ) -> None:
        """Norm heads where the family does, and turn them by their position, in place.

        Args:
            rows: [R, heads, D]; rotary pairs side by side.
            positions: int64 [R].
            table: fp32 [context, D]: cosine and sine of each pair, side by side.
            gains: fp32 [heads, D] of the norms, or None.
        """
        ...

    def gate(self, both: torch.Tensor) -> torch.Tensor:
        """Map [R, 2F], gates before ups, to activation(gate) * up."""
        ...


@dataclass(frozen=True, slots=True)
class TorchRowOps:
    """The ops in plain torch.

    Attributes:
        epsilon: of all norms.
        dtype: of normed rows.
        activation: "silu" or "gelu_tanh".
    """

    epsilon: float
    dtype: torch.dtype
    activation: str

    def add_norm(
        self, stream: torch.Tensor, delta: torch.Tensor | None, delta_gain: torch.Tensor | None, gain: torch.Tensor
    ) -> torch.Tensor:
        """Add to the stream in place, and return its norm."""
        if delta is not None:
            added = delta.float()
            stream += added if delta_gain is None else self._normed(added, delta_gain)
        return self._normed(stream, gain).to(self.dtype)

    def turn(
        self, rows: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, gains: torch.Tensor | None
    ) -> None:
        """Norm heads where the family does, and turn them by their position, in place."""
        found = rows.float()
        if gains is not None:
            found = torch.rms_norm(found, rows.shape[-1:], None, self.epsilon) * gains
        angles = table[positions].unsqueeze(1)
        cosine, sine, real, imaginary = angles[..., ::2], angles[..., 1::2], found[..., ::2], found[..., 1::2]
        turned = torch.stack((real * cosine - imaginary * sine, real * sine + imaginary * cosine), dim=-1)
        rows.copy_(turned.flatten(-2))

    def gate(self, both: torch.Tensor) -> torch.Tensor:
        """Return activation(gate) * up."""
        opened, up = both.float().chunk(2, dim=-1)
        return (_ACTIVATIONS[self.activation](opened) * up).to(both.dtype)

    def _normed(self, rows: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(rows, gain.shape, gain, self.epsilon)
