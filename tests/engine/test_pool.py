"""The pool has the size it was told, and another model, however alike, never reads its blocks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine import config as config_names
from engine.attention.paged import KV_FORMATS
from engine.chat_template import ChatTemplate
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.kv.contract import KvGroup
from engine.kv.retention import RETENTION
from engine.loader import Checkpoint, open_checkpoint
from engine.plan.kv import KV_TYPES
from engine.pool import identity, measured_rates, new_kv, token_bytes
from engine.tokenizer import Tokenizer
from tests.engine import tiny


def test_memory_is_turned_into_tokens() -> None:
    assert EngineConfig(kv_memory_mb=1).sized(token_bytes=2048).kv_tokens == 512
    assert EngineConfig(kv_tokens=160).sized(token_bytes=2048).kv_tokens == 160
    with pytest.raises(EngineError, match="at least one block"):
        EngineConfig(kv_memory_mb=1).sized(token_bytes=1 << 18)
    with pytest.raises(EngineError, match="at least 1 MiB"):
        EngineConfig(kv_memory_mb=0)


@pytest.mark.parametrize("kv_dtype", ["fp32", "fp16", "int8", "fp8"])
def test_bytes_are_those_of_the_pool(tiny_folder: Path, kv_dtype: str) -> None:
    config = tiny.small_config()
    checkpoint, runner = tiny.build_runner(tiny_folder, config, kv_dtype=kv_dtype)
    (group,) = checkpoint.config.kv_groups
    per_block = token_bytes(checkpoint.config, kv_dtype) * len(group.layers) * config.block_size
    assert runner.kv.block_bytes(0) == per_block


def test_the_names_the_flags_take_are_the_tables_own() -> None:
    assert tuple(RETENTION) == config_names.RETENTION
    assert set(config_names.KV_DTYPES) == set(KV_FORMATS) == set(KV_TYPES)


def test_the_host_tier_is_there_when_it_is_given_memory() -> None:
    groups = (KvGroup((0, 2)), KvGroup((1,), window=8))
    assert new_kv(tiny.small_config(), groups).host is None
    host = new_kv(tiny.small_config(host_kv_mb=3), groups, layer_token_bytes=10).host
    assert host is not None
    assert (host.capacity_bytes, host.block_bytes) == (3 << 20, (80, 40))


def test_moving_is_timed(tiny_folder: Path) -> None:
    checkpoint, runner = tiny.build_runner(tiny_folder, tiny.small_config())
    with torch.inference_mode():
        assert measured_rates(runner.kv, checkpoint.config.kv_groups).bytes_per_s > 0


Change = Callable[[Checkpoint], Checkpoint]


def _other_tokenizer(checkpoint: Checkpoint) -> Checkpoint:
    backend = tiny.byte_level_tokenizer()
    backend.add_tokens(["further"])
    return replace(checkpoint, tokenizer=Tokenizer(backend, byte_level=True, specials=frozenset()))


CHANGES: dict[str, Change] = {
    "template": lambda one: replace(one, template=ChatTemplate("{{ messages }}", {})),
    "no template": lambda one: replace(one, template=None),
    "tokenizer": _other_tokenizer,
    "rotary base": lambda one: replace(one, config=replace(one.config, rope_theta=5e5)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_of_the_model_is_in_its_identity(tiny_folder: Path, change: str) -> None:
    checkpoint, config = open_checkpoint(tiny_folder), tiny.small_config()
    root = identity(checkpoint, "r", config, "torch").root()
    assert identity(CHANGES[change](checkpoint), "r", config, "torch").root() != root
    assert identity(open_checkpoint(tiny_folder), "r", config, "torch").root() == root


def test_weights_numbers_and_kernels_are_in_it_too(tiny_folder: Path) -> None:
    checkpoint, config = open_checkpoint(tiny_folder), tiny.small_config()
    roots = {
        identity(checkpoint, "r", config, "torch").root(),
        identity(checkpoint, "s", config, "torch").root(),
        identity(checkpoint, "r", config, "native").root(),
        identity(checkpoint, "r", replace(config, kv_dtype="int8"), "torch").root(),
        identity(checkpoint, "r", replace(config, weights="fp16"), "torch").root(),
    }
    assert len(roots) == 5
