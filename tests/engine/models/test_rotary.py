"""Rotations: which numbers turn together, how fast, and which layers turn how."""

import cmath
from dataclasses import replace

import pytest
import torch

from engine.errors import ModelError
from engine.kv.contract import KvGroup
from engine.loader import ModelConfig, RopeScaling
from engine.models.rotary import paired_rows, rotary_tables

CONFIG = ModelConfig(
    family="llama",
    hidden=8,
    layers=3,
    heads=2,
    kv_heads=1,
    head_dim=8,
    intermediate=8,
    vocab=10,
    context=64,
    norm_eps=1e-5,
    rope_theta=10_000.0,
    tied=True,
)
HYBRID = replace(CONFIG, windows=(4, None, 4), local_rope_theta=100.0, rope_factor=8.0)


def test_rotary_pairs_are_put_side_by_side() -> None:
    assert paired_rows(1, 6).tolist() == [0, 3, 1, 4, 2, 5]
    assert paired_rows(2, 4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("axis", range(8))
def test_a_unit_vector_turns_with_its_partner_half_a_head_away(axis: int) -> None:
    """SharpMind#4: the halves of a pair are D/2 apart in the model and side by side here."""
    position, pair = 5, axis % 4
    vector = torch.zeros(8)
    vector[axis] = 1.0
    table = rotary_tables(CONFIG, None)[0]
    turned = torch.view_as_real(torch.view_as_complex(vector[paired_rows(1, 8)].view(4, 2)) * table[position])
    start = 1.0 if axis < 4 else 1j
    expected = start * cmath.exp(1j * position * 10_000 ** (-2 * pair / 8))
    assert complex(*turned[pair].tolist()) == pytest.approx(expected, abs=1e-6)
    turned[pair] = 0
    assert not turned.any()


def test_layers_turn_by_their_own_base_and_only_far_ones_are_stretched() -> None:
    near, far, also_near = rotary_tables(HYBRID, None)
    assert near is also_near
    assert near.shape == (64, 4)
    assert torch.angle(near[1, 1]) == pytest.approx(100.0 ** (-2 / 8))
    assert torch.angle(far[8, 1]) == pytest.approx(10_000.0 ** (-2 / 8))
    assert len({id(table) for table in rotary_tables(CONFIG, None)}) == 1


def test_factors_in_the_file_divide_the_frequencies() -> None:
    (table, *_) = rotary_tables(CONFIG, torch.tensor([1.0, 2.0, 4.0, 8.0]))
    assert torch.angle(table[2, 1]) == pytest.approx(10_000.0 ** (-2 / 8), rel=1e-5)


def test_llama3_leaves_high_frequencies_and_divides_low_ones() -> None:
    scaling = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=64)
    (table, *_) = rotary_tables(replace(CONFIG, rope_scaling=scaling), None)
    assert torch.angle(table[1, 0]) == pytest.approx(1.0)
    assert torch.angle(table[8, 3]) == pytest.approx(10_000.0 ** (-6 / 8), rel=1e-4)


def test_each_layer_belongs_to_the_group_of_its_own_window() -> None:
    """vllm#51756: the window is the layer's, not the model's."""
    config = replace(CONFIG, layers=5, windows=(4, None, 8, 4, None))
    assert config.kv_groups == (KvGroup((1, 4)), KvGroup((0, 3), 4), KvGroup((2,), 8))
    assert CONFIG.kv_groups == (KvGroup((0, 1, 2)),)
    assert replace(CONFIG, windows=(4, 4, 4)).kv_groups == (KvGroup((0, 1, 2), 4),)


@pytest.mark.parametrize("windows", [(4, None), (4, 0, None), (-1, 4, 4)])
def test_windows_that_do_not_fit_the_layers_are_refused(windows: tuple[int | None, ...]) -> None:
    with pytest.raises(ModelError, match="windows make no sense"):
        replace(CONFIG, windows=windows)
