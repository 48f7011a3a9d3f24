"""What the runner needs of a model."""

from dataclasses import dataclass
from typing import Protocol

import torch

from engine.attention.contract import LayerAttention
from engine.loader.contract import ModelConfig


@dataclass(frozen=True, slots=True)
class StepInput:
    """One forward pass over the tokens of several sequences. R rows, padded by `engine.kernels.padded_rows`.

    Attributes:
        ids: int64 [R], on the CPU; rows behind those of the sequences are padding.
        positions: int64 [R], on the model's device.
        logit_rows: int64, rows whose next token is wanted, padded likewise; on the model's device.
        num_logits: how many of them are real.
        attend: attention over the step's segments.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    logit_rows: torch.Tensor
    num_logits: int
    attend: LayerAttention


class Model(Protocol):
    """A decoder. Contract test: tests/engine/models/test_decoder.py."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    def forward(self, step: StepInput) -> torch.Tensor:
        """Write the step's keys and values and return fp32 logits [num_logits, vocabulary].

        Row results must not depend on the other rows. Runs under inference mode.
        """
        ...
