"""The planner's arithmetic against published figures, against tensors really made, and its own promises."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.attention.paged import KV_FORMATS, KvShape, PagedKV
from engine.errors import ModelError
from engine.kv.contract import KvGroup
from engine.loader import ModelConfig
from engine.plan.kv import KV_TYPES, layer_bytes, sequence_bytes, token_bytes
from engine.plan.named import SHAPES, find_shape
from engine.plan.plan import USABLE, Question, make_plan
from engine.plan.shape import Shape, shape_of

KIB, GIB = 1 << 10, 1 << 30

PUBLISHED_MILLIONS = {
    "smollm2-135m": 134.515,
    "smollm2-360m": 361.8,
    "gemma-3-270m": 268.1,
    "gemma-3-1b": 999.9,
    "qwen2.5-0.5b": 494.0,
    "qwen3-0.6b": 596.0,
    "qwen3-8b": 8190.7,
    "tinyllama-1.1b": 1100.0,
    "llama-2-7b": 6738.4,
    "llama-2-70b": 68976.6,
    "llama-3-8b": 8030.3,
    "llama-3.1-8b": 8030.3,
    "llama-3-70b": 70553.7,
    "llama-3.1-70b": 70553.7,
    "mistral-7b": 7241.7,
    "mixtral-8x7b": 46702.8,
    "falcon-7b": 6921.7,
    "deepseek-v2-lite": 15706.5,
    "deepseek-v3": 671026.4,
}


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_as_many_as_published(name: str) -> None:
    assert SHAPES[name].parameters / 1e6 == pytest.approx(PUBLISHED_MILLIONS[name], rel=1e-4)


def test_llama_3_8b_takes_what_is_published() -> None:
    llama = find_shape("llama-3-8b")
    assert token_bytes(llama, "bf16") == 128 * KIB
    assert sequence_bytes(llama, "bf16", 8192) == GIB
    assert sequence_bytes(llama, "bf16", 131072) == 16 * GIB
    mha = replace(llama, kv_heads=32)
    for tokens in (1, 8192, 131072):
        assert sequence_bytes(mha, "bf16", tokens) == 4 * sequence_bytes(llama, "bf16", tokens)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("llama-2-7b", "fp16", 524288),
        ("llama-3-70b", "bf16", 327680),
        ("falcon-7b", "fp16", 8192),
        ("deepseek-v2-lite", "bf16", 27 * 576 * 2),
        ("deepseek-v3", "bf16", 61 * 576 * 2),
        ("smollm2-135m", "fp32", 46080),
        ("smollm2-135m", "int8", 30 * 2 * 3 * (64 + 4)),
        ("qwen3-0.6b", "fp8", 28 * 2 * 8 * (128 + 4)),
    ],
)
def test_a_token_takes(name: str, kind: str, expected: int) -> None:
    assert token_bytes(find_shape(name), kind) == expected


@pytest.mark.parametrize("kind", KV_TYPES)
def test_the_engines_own_pool_has_just_these_bytes(kind: str) -> None:
    shape = Shape("tiny", 48, 3, 4, 2, 16, 80, 300, 1024)
    pool = PagedKV([KvGroup((0, 1, 2))], [4], KvShape(2, 16, 8, dtype=kind))
    assert pool.block_bytes(0) == 8 * token_bytes(shape, kind)
    assert KV_TYPES.keys() == KV_FORMATS.keys()


def test_a_window_stops_growing_and_holds_whole_blocks() -> None:
    gemma = find_shape("gemma-3-270m")
    layer = layer_bytes(gemma, "fp16")
    assert sequence_bytes(gemma, "fp16", 512) == 18 * 512 * layer
    assert sequence_bytes(gemma, "fp16", 32768) == (3 * 32768 + 15 * 512) * layer
    assert sequence_bytes(gemma, "fp16", 1000, 16) == (3 * 1008 + 15 * (1008 - 480)) * layer


@given(
    st.integers(1, 5000), st.integers(1, 64), st.sampled_from(sorted(SHAPES)), st.sampled_from(sorted(KV_TYPES))
)
def test_a_longer_sequence_never_takes_less_before_its_windows_and_blocks_only_add(
    tokens: int, size: int, name: str, kind: str
) -> None:
    shape = SHAPES[name]
    exact = sequence_bytes(shape, kind, tokens)
    assert exact <= sequence_bytes(shape, kind, tokens, size)
    assert exact <= sequence_bytes(shape, kind, tokens + 1)
    assert exact <= tokens * token_bytes(shape, kind)


@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(1, 200_000),
    st.integers(0, 1 << 40),
    st.sampled_from(sorted(KV_TYPES)),
)
def test_what_is_suggested_fits(name: str, context: int, memory: int, kind: str) -> None:
    plan = make_plan(SHAPES[name], Question(context, memory, kv=kind))
    assert plan.weights_bytes + plan.cache_bytes <= max(plan.weights_bytes, memory * USABLE)
    assert plan.sequences * plan.kv_sequence_bytes <= plan.cache_bytes
    assert plan.kv_tokens * plan.kv_token_bytes <= plan.cache_bytes
    assert plan.kv_tokens % 16 == 0
    assert (plan.max_running >= 1) is (plan.kv_tokens > 0)
    assert [variant.own for variant in plan.variants].count(True) == 1
    assert plan.variants[0].share == 1


def test_each_way_to_save_is_named_with_its_share() -> None:
    plan = make_plan(find_shape("llama-3-8b"), Question(8192, 24 * GIB, kv="bf16"))
    shares = {variant.name: variant.share for variant in plan.variants}
    assert shares == {
        "MHA": 1.0,
        "GQA, 8 KV heads": 0.25,
        "MQA, 1 KV head": 0.0312,
        "MLA, latent 512 + 64": 0.0703,
        "as built, 32 layers share 16 caches": 0.125,
        "as built, fp16": 0.25,
        "as built, int8": 0.1289,
        "as built, fp8": 0.1289,
        "as built, bf16": 0.25,
    }
    assert plan.sequences == 6
    latent = make_plan(find_shape("deepseek-v2-lite"), Question(32768, 80 * GIB))
    assert {variant.name: variant.share for variant in latent.variants}["as built, fp16"] == 0.1125
    mixed = make_plan(find_shape("gemma-3-270m"), Question(32768, 8 * GIB))
    names = [variant.name for variant in mixed.variants]
    assert "MQA, window 512 in 15 of 18 layers" in names
    assert "as built, 18 layers share 10 caches" in names


def test_weights_that_leave_no_room_leave_nothing_to_suggest() -> None:
    plan = make_plan(find_shape("llama-3-70b"), Question(8192, 24 * GIB))
    assert (plan.cache_bytes, plan.sequences, plan.kv_tokens, plan.max_running) == (0, 0, 0, 0)
    four = make_plan(find_shape("llama-3-70b"), Question(8192, 48 * GIB, weights="int4"))
    assert four.weights_bytes == int(70553706496 * 4.5 / 8)
    assert four.sequences > 0


@pytest.mark.parametrize(
    "name", ["Llama-3-8B", "llama3-8b", "meta-llama/Meta-Llama-3-8B-Instruct", "LLAMA_3_8B", "llama-3-8b-hf"]
)
def test_names_are_forgiving(name: str) -> None:
    assert find_shape(name).name == "llama-3-8b"


@pytest.mark.parametrize("name", ["", "llama", "llama-3-9b", "instruct", "/"])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(ModelError, match="llama-3-8b, "):
        find_shape(name)


def test_a_loaded_model_is_planned_from_its_config() -> None:
    config = ModelConfig("llama", 576, 30, 9, 3, 64, 1536, 49152, 8192, 1e-5, 1e4, tied=True)
    assert shape_of(config, "smollm2-135m") == find_shape("smollm2-135m")


@pytest.mark.parametrize("change", [{"heads": 3}, {"layers": 0}, {"windows": (4,)}, {"kv_from": (0, 0)}])
def test_a_shape_that_cannot_be_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ModelError):
        replace(find_shape("qwen2.5-0.5b"), **change)
