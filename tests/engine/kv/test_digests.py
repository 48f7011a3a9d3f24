"""A block's name covers everything its keys and values depend on, and nothing else, in every process."""

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from engine.kv.contract import KvGroup
from engine.kv.digests import (
    ModelIdentity,
    block_digest,
    cache_root,
    framed_digest,
    pack_tokens,
    tail_digest,
    tenant_root,
)

IDENTITY = ModelIdentity("llama", "w1", "t1", "c1", kv_dtype="fp32")
GROUPS = (KvGroup((0, 1)),)

GOLDEN = {
    "root": "ea9caf13edbbc04d5f715d8393f27ec4dd2d77b77175bb788d059d465df68390",
    "tenant": "9350017dda272868f99abe399429ada31d3b48c93cf568cad9d7588c84bdd606",
    "block": "86e1d7c45ba2e720bf475ee8de709050c36be67904e475f176edaf9d153eafd3",
}


def golden() -> dict[str, str]:
    root = IDENTITY.root()
    tenant = tenant_root(cache_root(root, GROUPS, 16), "acme")
    block = block_digest(tenant, pack_tokens(range(16)))
    return {"root": root.hex(), "tenant": tenant.hex(), "block": block.hex()}


def test_digests_stay_what_they_are() -> None:
    assert golden() == GOLDEN


def test_another_process_finds_the_same_digests() -> None:
    """LMCache#1728 and its kin: no hash that depends on the process."""
    code = "from tests.engine.kv.test_digests import golden; print(golden())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(GOLDEN)


@pytest.mark.parametrize("name", [field.name for field in fields(ModelIdentity)])
def test_every_part_of_the_identity_matters(name: str) -> None:
    """sglang#31920: two models must not share a key."""
    assert replace(IDENTITY, **{name: "other"}).root() != IDENTITY.root()


def test_a_value_in_another_field_is_another_identity() -> None:
    """sglang#24638: an adapter that is named like something else is not it."""
    assert replace(IDENTITY, adapter="x").root() != replace(IDENTITY, rope="x").root()


def test_borders_between_fields_matter() -> None:
    """confidential-model-router#386: "ab" and "c" are not "a" and "bc"."""
    assert framed_digest(b"t", [("x", b"ab"), ("y", b"c")]) != framed_digest(b"t", [("x", b"a"), ("y", b"bc")])
    assert framed_digest(b"t", [("x", b"ab")]) != framed_digest(b"t", [("xa", b"b")])


@pytest.mark.parametrize(
    ("groups", "block_size"),
    [((KvGroup((0, 1)),), 32), ((KvGroup((0,)), KvGroup((1,))), 16), ((KvGroup((0, 1), window=512),), 16)],
)
def test_how_the_cache_is_cut_matters(groups: tuple[KvGroup, ...], block_size: int) -> None:
    """kvcached#451, vllm#51756: block size, and which layers have which window, are part of the name."""
    root = IDENTITY.root()
    assert cache_root(root, groups, block_size) != cache_root(root, GROUPS, 16)


def test_salts_start_other_chains() -> None:
    root = IDENTITY.root()
    assert len({tenant_root(root, salt) for salt in ("", "a", "b", "a\0", "\ud800")}) == 5


def test_a_token_moved_over_a_block_border_is_another_chain() -> None:
    root = IDENTITY.root()
    one = block_digest(block_digest(root, pack_tokens([1, 2])), pack_tokens([3]))
    other = block_digest(block_digest(root, pack_tokens([1])), pack_tokens([2, 3]))
    assert one != other


def test_the_chain_is_not_linear() -> None:
    """Megatron-LM#4158: what makes two polynomial hashes meet (+1 here, -base there) makes nothing meet."""
    root = IDENTITY.root()
    base = 1_000_003
    one = block_digest(root, pack_tokens([5, base + 7]))
    other = block_digest(root, pack_tokens([6, 7]))
    assert one != other


def test_an_open_block_is_never_a_full_one() -> None:
    tokens = pack_tokens([1, 2, 3, 4])
    assert tail_digest(bytes(32), tokens) != block_digest(bytes(32), tokens)


def test_tokens_are_four_bytes_little_endian() -> None:
    assert pack_tokens([1, 258]) == b"\x01\0\0\0\x02\x01\0\0"


@pytest.mark.parametrize("token", [-1, 1 << 32])
def test_a_token_that_does_not_fit_is_refused(token: int) -> None:
    with pytest.raises(OverflowError):
        pack_tokens([token])
