"""What every loader hands over, whatever the file format: one config, one set of weights, one tokenizer."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from engine.chat_template import ChatTemplate
from engine.errors import ModelError
from engine.kv.contract import KvGroup
from engine.loader.matrix import Matrix
from engine.tokenizer import Tokenizer

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)
"""What reading values of the wrong kind out of a model's own settings may raise."""

ACTIVATIONS = ("silu", "gelu_tanh")
"""Of the feed-forward's gate."""

_LARGEST_SIZE = 2**31 - 1
_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3's stretching of low rotary frequencies."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a decoder; the same nouns for every format.

    Attributes:
        family: a key of `engine.models.MODELS`.
        tied: whether the output head is the embedding.
        context: longest prompt plus answer, in tokens.
        rope_scaling: None for plain rotary frequencies.
        rope_factor: divides rotary frequencies of layers without a window (linear scaling).
        windows: per layer, tokens a query may look back, itself included, or None for all; () is None for each.
        local_rope_theta: base frequency of the layers with a window; None for the same as the others.
        query_scale: multiplies scores; 0 means 1 / sqrt(head_dim).
        activation: of the gate, "silu" or "gelu_tanh".
        embedding_scale: multiplies looked-up embeddings.
    """

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    norm_eps: float
    rope_theta: float
    tied: bool
    rope_scaling: RopeScaling | None = None
    rope_factor: float = 1.0
    windows: tuple[int | None, ...] = ()
    local_rope_theta: float | None = None
    query_scale: float = 0.0
    activation: str = "silu"
    embedding_scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse shapes no decoder can have."""
        sizes = (self.hidden, self.layers, self.heads, self.kv_heads, self.head_dim, self.intermediate, self.vocab)
        fits = all(1 <= size <= _LARGEST_SIZE and isinstance(size, int) for size in (*sizes, self.context))
        if not fits or self.heads % self.kv_heads or self.head_dim % 2:
            raise ModelError(f"the model's shape makes no sense: {self}")
        if not (0 <= self.norm_eps < 1 and 0 < self.rope_theta < math.inf and 0 < self.rope_factor < math.inf):
            raise ModelError(f"the model's norms or rotations make no sense: {self}")
        narrowest = min((window for window in self.windows if window is not None), default=1)
        if narrowest < 1 or len(self.windows) not in (0, self.layers):
            raise ModelError(f"the model's windows make no sense: {self}")
        if self.activation not in ACTIVATIONS:
            raise ModelError(f"activation {self.activation!r} is not supported")

    @property
    def kv_groups(self) -> tuple[KvGroup, ...]:
        """Layers by how far they look back: those that see everything first, then by window."""
        windows = self.windows or (None,) * self.layers
        kinds = sorted(set(windows), key=lambda window: (window is not None, window or 0))
        return tuple(
            KvGroup(tuple(layer for layer, window in enumerate(windows) if window == kind), kind) for kind in kinds
        )

    @property
    def score_scale(self) -> float:
        """What multiplies attention scores."""
        return self.query_scale or self.head_dim**-0.5


def checked_layers(count: int) -> int:
    """Return the number of layers a file names, before anything of that length is made.

    Raises:
        ModelError: no decoder has so many.
        TypeError: it is no number.
    """
    if not 1 <= count <= _MOST_LAYERS:
        raise ModelError(f"{count} layers make no sense")
    return count


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight that has not been read yet.

    Attributes:
        shape: as the model means it.
        read: returns it as a matrix of the last dimension's columns; a vector is one row.
    """

    shape: tuple[int, ...]
    read: Callable[[], Matrix]


class Weights:
    """Weights by their Hugging Face names, read when taken, so that they are not in memory twice.

    Different weights may be taken by different threads.

    Attributes:
        rotary_pairs: rows of queries and keys (weights, biases, per-head norms) have their rotary pairs side by
            side already, as GGUF's llama layout does; otherwise a head's first half holds one of each pair, its
            second half the other.
    """

    def __init__(self, stored: Mapping[str, StoredWeight], *, rotary_pairs: bool = False) -> None:
        self._stored = dict(stored)
        self.rotary_pairs = rotary_pairs

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Read one weight as fp32 and cross it off.

        Raises:
            ModelError: it is absent, was taken before, or has another shape.
        """
        return self._take(name, shape).dense().view(shape)

    def take_matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """Read one weight as it is stored and cross it off; a memory map's bytes are not copied.

        Raises:
            ModelError: it is absent, was taken before, or has another shape.
        """
        return self._take(name, (rows, columns))

    def drop(self, name: str) -> None:
        """Cross off a weight the model has no use for, if present."""
        self._stored.pop(name, None)

    def finish(self) -> None:
        """Prove that nothing is left over.

        Raises:
            ModelError: the checkpoint has weights this architecture does not use, so it is another architecture.
        """
        if self._stored:
            names = sorted(self._stored)
            raise ModelError(f"{len(names)} weights are left over, such as {', '.join(names[:3])}")

    def _take(self, name: str, shape: tuple[int, ...]) -> Matrix:
        stored = self._stored.pop(name, None)
        if stored is None:
            raise ModelError(f"weight {name} is missing")
        if stored.shape != shape:
            raise ModelError(f"weight {name} has shape {stored.shape}, expected {shape}")
        return stored.read()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as read from disk.

    Attributes:
        template: None when the model came without a chat template.
        eos_ids: tokens that end an answer.
    """

    config: ModelConfig
    weights: Weights
    tokenizer: Tokenizer
    template: ChatTemplate | None
    eos_ids: frozenset[int]
