"""Which attention a machine gets: a table of machines."""

from dataclasses import replace

import pytest

from engine.attention.cuda_choice import AttentionFacts, attention_choices

ALL = frozenset({"triton", "flashinfer", "flash_attn_interface"})
H200 = AttentionFacts((9, 0), ALL, "bf16", "bf16", 128)


def chosen(facts: AttentionFacts) -> list[str]:
    return [choice.chunks for choice in attention_choices(facts)]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (H200, ["flashinfer", "varlen", "triton", "sdpa"]),
        (replace(H200, importable=frozenset({"triton"})), ["triton", "sdpa"]),
        (replace(H200, capability=(8, 0)), ["flashinfer", "triton", "sdpa"]),
        (replace(H200, kv_dtype="int8"), ["triton", "sdpa"]),
        (replace(H200, kv_dtype="fp8"), ["triton", "sdpa"]),
        (replace(H200, dtype="fp16"), ["triton", "sdpa"]),
        (replace(H200, head_dim=80), ["varlen", "triton", "sdpa"]),
    ],
)
def test_the_best_comes_first_and_gathering_last(facts: AttentionFacts, expected: list[str]) -> None:
    assert chosen(facts) == expected


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(H200, capability=None), "there is no CUDA device"),
        (replace(H200, importable=frozenset()), "triton is not installed"),
        (replace(H200, capability=(7, 5)), "compute capability 7.5 is below 8.0"),
        (replace(H200, capability=(8, 6), kv_dtype="fp8"), "compute capability 8.6 does not convert fp8"),
        (replace(H200, head_dim=512), "heads of 512 do not fit a tile"),
    ],
)
def test_where_no_kernel_fits_the_reason_is_told(facts: AttentionFacts, reason: str) -> None:
    (only,) = attention_choices(facts)
    assert (only.attention, only.chunks, only.reason) == ("sdpa", "sdpa", reason)
