"""The shape of a decoder, as far as memory depends on it.

Legend: H hidden size, K KV heads, D head size, I size of the feed-forward layer.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import ModelError

if TYPE_CHECKING:  # its package loads torch, which a plan for a named shape does without
    from engine.loader import ModelConfig

_GATED_MATRICES, _PLAIN_MATRICES = 3, 2


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek): one compressed row a token, whatever the number of heads.

    Attributes:
        kv_rank: size of the compressed keys and values.
        rope_dim: size of the rotary key kept beside them.
        nope_dim, value_dim: of a head, without the rotary part.
        query_rank: size of the compressed query; None when queries are not compressed.
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture-of-experts feed-forward layer.

    Attributes:
        routed: experts a router chooses from.
        shared: experts every token goes through.
        size: I of one expert.
        dense_layers: first layers that have a plain feed-forward layer.
    """

    routed: int
    shared: int
    size: int
    dense_layers: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder.

    Attributes:
        context: longest prompt plus answer its makers name, in tokens.
        tied: whether the output head is the embedding.
        windows: per layer, tokens a query may look back, itself included, or None for all; () is None for each.
        kv_from: per layer, the layer whose keys and values it reads; () is each its own.
        qkv_bias, qk_norm: whether attention has those weights.
        gated: whether the feed-forward layer has a gate, so three matrices instead of two.
        norms: norms of a layer, each of H weights.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    tied: bool = False
    windows: tuple[int | None, ...] = ()
    kv_from: tuple[int, ...] = ()
    latent: Latent | None = None
    experts: Experts | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    gated: bool = True
    norms: int = 2

    def __post_init__(self) -> None:
        """Refuse shapes no decoder can have."""
        sizes = (self.hidden, self.layers, self.heads, self.kv_heads, self.head_dim, self.intermediate, self.vocab)
        if min(*sizes, self.context) < 1 or self.heads % self.kv_heads:
            raise ModelError(f"{self.name}: the shape makes no sense")
        if len(self.windows) not in (0, self.layers) or len(self.kv_from) not in (0, self.layers):
            raise ModelError(f"{self.name}: windows and shared layers must be given for each layer")

    @property
    def attention(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.latent is not None:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def own_kv(self) -> tuple[int | None, ...]:
        """The window of each layer that has keys and values of its own."""
        windows = self.windows or (None,) * self.layers
        owners = sorted(set(self.kv_from)) if self.kv_from else range(self.layers)
        return tuple(windows[layer] for layer in owners)

    @property
    def parameters(self) -> int:
        """Weights of the whole model."""
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        layers = self.layers * (self._attention_weights() + self.norms * self.hidden)
        return embeddings + layers + self._feed_forward_weights() + self.hidden

    def _attention_weights(self) -> int:
        hidden, heads, kv_heads, size = self.hidden, self.heads, self.kv_heads, self.head_dim
        if self.latent is not None:
            return self._latent_weights(self.latent)
        weights = hidden * size * (2 * heads + 2 * kv_heads)
        bias = size * (heads + 2 * kv_heads) if self.qkv_bias else 0
        return weights + bias + (2 * size if self.qk_norm else 0)

    def _latent_weights(self, latent: Latent) -> int:
        hidden, heads = self.hidden, self.heads
        query_dim = heads * (latent.nope_dim + latent.rope_dim)
        rank = latent.query_rank
        query = hidden * query_dim if rank is None else rank * (hidden + query_dim + 1)
        down = hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
        up = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
        return query + down + up + heads * latent.value_dim * hidden

    def _feed_forward_weights(self) -> int:
        matrices = _GATED_MATRICES if self.gated else _PLAIN_MATRICES
        experts = self.experts
        if experts is None:
            return self.layers * matrices * self.hidden * self.intermediate
        dense = experts.dense_layers * matrices * self.hidden * self.intermediate
        each = (experts.routed + experts.shared) * matrices * self.hidden * experts.size
        return dense + (self.layers - experts.dense_layers) * (each + experts.routed * self.hidden)


def shape_of(config: "ModelConfig", name: str) -> Shape:
    """The shape of a loaded model; its count of weights leaves out biases and norms of heads."""
    sizes = (config.hidden, config.layers, config.heads, config.kv_heads, config.head_dim)
    return Shape(
        name,
        *sizes,
        config.intermediate,
        config.vocab,
        config.context,
        tied=config.tied,
        windows=config.windows,
    )
