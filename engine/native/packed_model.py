"""A decoder's weights in the form the kernels take, and what keeps their memory alive."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from engine.attention.paged import PagedKV
from engine.loader.contract import ModelConfig
from engine.loader.matrix import Matrix
from engine.models.decoder_weights import DecoderWeights, LayerWeights
from engine.native.library import Kv, Layer, Shape, Weights
from engine.native.pack import Packed, pack, padded
from engine.native.support import ACTIVATIONS, KV_KINDS

_MATRICES = ("query", "key", "value", "output", "gate", "up", "down")
_VECTORS = (
    *("attention_norm", "feed_norm", "post_attention_norm", "post_feed_norm"),
    *("query_bias", "key_bias", "value_bias", "query_norm", "key_norm"),
)


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What `Library.open` is given.

    Attributes:
        config: the model's shape.
        threads: that packed it, and will run it.
        keep: memory the structures point to; it must outlive the model.
        weight_bytes: bytes of linear weights.
    """

    config: ModelConfig
    threads: int
    weights: Weights
    keep: tuple[object, ...]
    weight_bytes: int


def pack_model(config: ModelConfig, weights: DecoderWeights, threads: int, *, narrow: bool) -> PackedModel:
    """Pack all weights, several layers at a time.

    Args:
        config: the model's shape.
        weights: as read; may be let go afterwards.
        threads: layers packed at once.
        narrow: whether weights the file has in fp32 are kept in fp16.
    """
    keep: list[object] = []
    packed: list[Packed] = []
    pack_one = partial(pack, narrow=narrow)
    with ThreadPoolExecutor(threads) as pool:
        layers = list(pool.map(partial(_pack_layer, pack_one), weights.layers))
        head = pool.submit(pack_one, weights.head)
        tied = _same(weights.embedding, weights.head)
        embedding = head if tied else pool.submit(pack_one, weights.embedding)
        packed += [head.result(), embedding.result()]
    tables = _tables(weights.rotary)
    native = (Layer * config.layers)()
    places = {
        layer: (number, place)
        for number, group in enumerate(config.kv_groups)
        for place, layer in enumerate(group.layers)
    }
    for index, (matrices, vectors) in enumerate(layers):
        layer = native[index]
        for name, one in matrices.items():
            setattr(layer, name, one.view)
        for name, vector in vectors.items():
            setattr(layer, name, vector.ctypes.data)
        layer.rotary = tables[id(weights.rotary[index])].ctypes.data
        layer.group, layer.group_layer = places[index]
        layer.window = config.kv_groups[layer.group].window or 0
        packed += matrices.values()
        keep += vectors.values()
    norm = padded(weights.norm)
    top = Weights(packed[1].view, packed[0].view, norm.ctypes.data, native)
    keep += [native, norm, *tables.values(), *packed]
    return PackedModel(config, threads, top, tuple(keep), sum(one.size_bytes for one in packed[tied:]))


def native_shape(config: ModelConfig, block_size: int, threads: int) -> Shape:
    """Describe a model to the kernels."""
    return Shape(
        hidden=config.hidden,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        intermediate=config.intermediate,
        vocab=config.vocab,
        layers=config.layers,
        groups=len(config.kv_groups),
        activation=ACTIVATIONS[config.activation],
        threads=threads,
        norm_eps=config.norm_eps,
        query_scale=config.score_scale,
        embedding_scale=config.embedding_scale,
        block_size=block_size,
    )


def native_kv(kv: PagedKV) -> "ctypes.Array[Kv]":
    """Point the kernels to the pools of a KV store, which must outlive the model."""
    groups = (Kv * len(kv.pools))()
    for group, pool in zip(groups, kv.pools, strict=True):
        group.kind = KV_KINDS[kv.shape.dtype]
        group.layer_bytes = pool.values[0].numel() * pool.values.itemsize
        group.values = pool.values.data_ptr()
        if pool.scales is not None:
            group.layer_scales = pool.scales[0].numel()
            group.scales = pool.scales.data_ptr()
    return groups


def _same(one: Matrix, other: Matrix) -> bool:
    return one is other or (one.kind == other.kind and one.data is other.data)


def _pack_layer(
    pack_one: Callable[[Matrix], Packed], layer: LayerWeights
) -> tuple[dict[str, Packed], dict[str, np.ndarray]]:
    matrices = {name: pack_one(getattr(layer, name)) for name in _MATRICES}
    present = {name: getattr(layer, name) for name in _VECTORS}
    return matrices, {name: padded(vector) for name, vector in present.items() if vector is not None}


def _tables(rotary: tuple[torch.Tensor, ...]) -> dict[int, np.ndarray]:
    """Each distinct table once, fp32 [context, head_dim]."""
    distinct = {id(table): table for table in rotary}
    return {
        key: np.ascontiguousarray(torch.view_as_real(table).flatten(1).numpy()) for key, table in distinct.items()
    }
