"""The KV pool's size, its books and its identity, from what the engine is told and what the model is."""

import time
from hashlib import blake2b

from engine.config import EngineConfig
from engine.kv.contract import KvGroup, KvStore
from engine.kv.digests import ModelIdentity
from engine.kv.host_tier import HostTier
from engine.kv.kv_cache import KvCache, Retention
from engine.kv.rates import Rates
from engine.loader import Checkpoint, ModelConfig
from engine.plan.kv import KV_TYPES
from engine.tokenizer import Tokenizer

_ONE_LAYER = (KvGroup((0,)),)
_TIMED_BLOCKS = 8
_SEPARATOR = b"\0"


def token_bytes(model: ModelConfig, kv_dtype: str) -> int:
    """Bytes of one token's keys and values in one layer."""
    return 2 * model.kv_heads * KV_TYPES[kv_dtype].row_bytes(model.head_dim)


def new_kv(
    config: EngineConfig, groups: tuple[KvGroup, ...] = _ONE_LAYER, layer_token_bytes: int = 1, root: bytes = b""
) -> KvCache:
    """Make the books of an empty pool.

    Args:
        config: blocks, retention and host memory.
        groups: the model's, each with as many blocks.
        layer_token_bytes: of one token in one layer, for the host tier.
        root: identifies the model.
    """
    host = None
    if config.host_kv_mb:
        block_bytes = (len(group.layers) * layer_token_bytes * config.block_size for group in groups)
        host = HostTier(config.host_kv_mb << 20, tuple(block_bytes))
    blocks = (config.num_blocks,) * len(groups)
    return KvCache(groups, blocks, config.block_size, root, retention=Retention(config.retention), host=host)


def identity(checkpoint: Checkpoint, revision: str, config: EngineConfig, kernels: str) -> ModelIdentity:
    """Name all that decides a token's keys and values.

    Args:
        checkpoint: shape, tokenizer and template.
        revision: of the model's files.
        config: weight format and KV type.
        kernels: what computes; other kernels round otherwise.
    """
    template = checkpoint.template
    return ModelIdentity(
        model=repr(checkpoint.config),
        weights=revision,
        tokenizer=_tokenizer_digest(checkpoint.tokenizer),
        chat_template="" if template is None else blake2b(template.source.encode()).hexdigest(),
        kv_dtype=config.kv_dtype,
        quantisation=f"{config.weights} {kernels}",
    )


def measured_rates(store: KvStore, groups: tuple[KvGroup, ...]) -> Rates:
    """Time a few blocks out of the pool and back, in inference mode; what computing costs is measured by steps.

    Side effects: rewrites blocks of a pool in which nothing is kept yet.
    """
    began, moved = time.perf_counter(), 0
    for group in range(len(groups)):
        for _ in range(_TIMED_BLOCKS):
            payload = store.read_block(group, 0)
            store.write_block(group, 0, payload)
            moved += 2 * len(payload)
    return Rates(bytes_per_s=moved / max(time.perf_counter() - began, 1e-9))


def _tokenizer_digest(tokenizer: Tokenizer) -> str:
    digest = blake2b()
    for token_id in range(tokenizer.vocab_size):
        digest.update(tokenizer.label(token_id) + _SEPARATOR)
    return digest.hexdigest()
