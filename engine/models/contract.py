"""What the runner needs of a model family."""

from dataclasses import dataclass
from typing import Protocol, Self

import torch

from engine.attention.paged import PagedKV, Segment
from engine.loader.contract import ModelConfig
from engine.models.decoder_weights import DecoderWeights


@dataclass(frozen=True, slots=True)
class StepInput:
    """One forward pass over the tokens of several sequences. R rows, padded by `engine.kernels.padded_rows`.

    Attributes:
        ids: int64 [R]; rows past `num_tokens` are padding.
        positions: int64 [R].
        num_tokens: rows that belong to a sequence.
        write_slots: int64 [num_tokens], where each token's keys and values go.
        segments: the same rows by sequence.
        logit_rows: int64, rows whose next token is wanted, padded likewise.
        num_logits: how many of them are real.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    num_tokens: int
    write_slots: torch.Tensor
    segments: tuple[Segment, ...]
    logit_rows: torch.Tensor
    num_logits: int


class Model(Protocol):
    """A decoder. Contract test: tests/engine/test_models.py."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    @classmethod
    def build(cls, config: ModelConfig, weights: DecoderWeights, linear: str) -> Self:
        """Pack the weights, each kept in the format `linear` names."""
        ...

    def forward(self, step: StepInput, kv: PagedKV) -> torch.Tensor:
        """Write the step's keys and values and return fp32 logits [num_logits, vocabulary].

        Row results must not depend on the other rows. Runs under inference mode.
        """
        ...
