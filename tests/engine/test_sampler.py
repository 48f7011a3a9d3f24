"""Each parameter changes the choice exactly as documented; randomness belongs to the request."""

import math

import pytest
import torch

from engine import sampler
from engine.sampler import NOTHING_LEFT, sample
from engine.sampling import SamplingParams
from tests.engine import tiny

LOGITS = [2.0, 1.0, 0.5, 0.0, -1.0]
EOS = frozenset([0])


def choose(params: SamplingParams, logits: list[float] | None = None, output: tuple[int, ...] = ()) -> int:
    sequence = tiny.new_sequence(0, (1,), params)
    sequence.output_ids = list(output)
    (found,) = sample(torch.tensor([logits or LOGITS]), [sequence], EOS)
    assert found is not None
    return found.token_id


def choices(draws: int = 300, **wishes: object) -> set[int]:
    return {choose(SamplingParams(max_tokens=1, seed=seed, **wishes)) for seed in range(draws)}


def test_greedy_takes_the_best_and_ignores_the_seed() -> None:
    assert choices(5, temperature=0) == {0}


def test_temperature_one_follows_the_softmax() -> None:
    found = [choose(SamplingParams(max_tokens=1, seed=seed)) for seed in range(4000)]
    for token, share in enumerate(torch.tensor(LOGITS).softmax(-1).tolist()):
        assert found.count(token) / len(found) == pytest.approx(share, abs=0.025)


def test_a_tiny_temperature_is_nearly_greedy_and_finite() -> None:
    assert choices(50, temperature=1e-4) == {0}


def test_top_k_keeps_k() -> None:
    assert choices(top_k=2, temperature=2) == {0, 1}
    assert choices(50, top_k=1) == {0}
    assert choices(400, top_k=500, temperature=2) == {0, 1, 2, 3, 4}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    shares = torch.tensor(LOGITS).softmax(-1)
    two = float(shares[:2].sum())
    assert choices(top_p=two - 0.01) == {0, 1}
    assert choices(top_p=two + 0.01) == {0, 1, 2}
    assert choices(50, top_p=0.0) == {0}


def test_min_p_is_relative_to_the_best() -> None:
    assert choices(min_p=math.exp(-1.2)) == {0, 1}


def test_penalties_count_output_tokens_as_openai_means_them() -> None:
    """vllm#5639: presence once, frequency per time, and the prompt does not count."""
    logits = [2.0, 1.5, 0.0, 0.0, 0.0]
    greedy = SamplingParams(max_tokens=1, temperature=0, presence_penalty=0.4)
    assert choose(greedy, logits, (0, 0, 0)) == 0
    assert choose(SamplingParams(max_tokens=1, temperature=0, presence_penalty=0.6), logits, (0,)) == 1
    assert choose(SamplingParams(max_tokens=1, temperature=0, frequency_penalty=0.2), logits, (0, 0)) == 0
    assert choose(SamplingParams(max_tokens=1, temperature=0, frequency_penalty=0.2), logits, (0, 0, 0)) == 1
    assert choose(SamplingParams(max_tokens=1, temperature=0, frequency_penalty=2), logits) == 0


def test_repetition_counts_prompt_and_output_and_pushes_both_signs_down() -> None:
    """llama.cpp#8971: the prompt counts, however it came to be computed."""
    twice = SamplingParams(max_tokens=1, temperature=0, repetition_penalty=2)
    assert choose(twice, [0.0, 4.0, 1.9, 0.0, 0.0]) == 1, "4 / 2 is still the best"
    assert choose(twice, [0.0, 4.0, 2.1, 0.0, 0.0]) == 2, "token 1 is the prompt"
    assert choose(twice, [-2.0, -1.0, -3.0, -3.0, -1.5], (4,)) == 0, "-1 and -1.5 are doubled"
    assert choose(SamplingParams(max_tokens=1, temperature=0, repetition_penalty=0.5), [3.0, 2.0, 0, 0, 0]) == 1


def test_end_tokens_wait_for_min_tokens() -> None:
    params = SamplingParams(max_tokens=9, min_tokens=2, temperature=0, stop_token_ids=frozenset([1]))
    assert choose(params) == 2
    assert choose(params, output=(2,)) == 2
    assert choose(params, output=(2, 2)) == 0


def test_only_allowed_tokens_are_chosen() -> None:
    assert choose(SamplingParams(max_tokens=1, temperature=0, allowed_token_ids=(3, 4))) == 3
    assert choices(allowed_token_ids=(1, 4)) == {1, 4}


def test_bad_words_are_not_completed() -> None:
    params = SamplingParams(max_tokens=1, temperature=0, bad_words_ids=((0,), (4, 2, 1)))
    assert choose(params) == 1
    assert choose(params, output=(4, 2)) == 2
    assert choose(params, output=(2,)) == 1
    assert choose(params, output=(4, 2, 3)) == 1


def test_edits_come_in_their_documented_order() -> None:
    """Bias, then penalties, then temperature: (1 + 3) / 2 + 0 loses to 2.1; before the bias it would win."""
    params = SamplingParams(max_tokens=1, temperature=0, logit_bias=((1, 3.0),), repetition_penalty=2)
    assert choose(params, [2.1, 1.0, 0.0, 0.0, 0.0]) == 0
    params = SamplingParams(max_tokens=1, temperature=0, logit_bias=((0, 100.0),), allowed_token_ids=(1,))
    assert choose(params) == 1, "what is forbidden stays so"


def test_nothing_left_to_choose_is_told_from_a_broken_row() -> None:
    params = SamplingParams(max_tokens=1, allowed_token_ids=(0,), bad_words_ids=((0,),))
    assert sample(torch.tensor([LOGITS]), [tiny.new_sequence(0, (1,), params)]) == [NOTHING_LEFT]


def test_next_to_no_temperature_is_greedy() -> None:
    assert choices(20, temperature=1e-300) == {0}


def test_logit_bias_moves_tokens() -> None:
    assert choose(SamplingParams(max_tokens=1, temperature=0, logit_bias=((3, 100.0),))) == 3
    assert choose(SamplingParams(max_tokens=1, temperature=0, logit_bias=((0, -100.0), (1, -100.0)))) == 2


def test_the_same_seed_gives_the_same_token_in_any_company() -> None:
    """vllm#1637: alone equals batched."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(6, 500, generator=generator)
    wishes = [SamplingParams(max_tokens=1, seed=seed, top_p=0.9 if seed % 2 else 1.0) for seed in range(6)]
    sequences = [tiny.new_sequence(seed, (1,), params) for seed, params in enumerate(wishes)]
    alone = [sample(logits[row : row + 1], [one])[0] for row, one in enumerate(sequences)]
    assert sample(logits, sequences) == alone
    assert sample(logits.flip(0), sequences[::-1]) == alone[::-1]


def test_logprobs_are_raw_whatever_the_sampling() -> None:
    params = SamplingParams(max_tokens=1, temperature=0.1, seed=1, logit_bias=((4, 100.0),), top_logprobs=2)
    (found,) = sample(torch.tensor([LOGITS]), [tiny.new_sequence(0, (1,), params)])
    raw = torch.tensor(LOGITS).log_softmax(-1)
    assert found is not None
    assert found.chosen is not None
    assert (found.token_id, found.chosen.logprob) == (4, pytest.approx(float(raw[4])))
    assert [(one.token_id, one.logprob) for one in found.top] == [
        (0, pytest.approx(float(raw[0]))),
        (1, pytest.approx(float(raw[1]))),
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_unusable_logits_fail_their_row_alone(bad: float) -> None:
    logits = torch.tensor([LOGITS, [0.0, bad, 0.0, 0.0, 0.0], LOGITS])
    params = SamplingParams(max_tokens=1, temperature=0)
    found = sample(logits, [tiny.new_sequence(row, (1,), params) for row in range(3)])
    assert [None if one is None else one.token_id for one in found] == [0, None, 0]


def test_what_a_device_draws_for_all_rows_is_what_each_row_alone_gives() -> None:
    """Greedy, edited, reported and unusable rows stay out."""
    logits = torch.randn(6, 400, generator=torch.Generator().manual_seed(4)) * 4
    logits[5, 7] = math.nan
    wishes = [
        {"temperature": 0},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 0.7, "top_logprobs": 1},
        {"temperature": 0.7, "logit_bias": ((1, 1.0),)},
        {"temperature": 1.0, "top_k": 5},
        {},
    ]
    sequences = [
        tiny.new_sequence(row, (1,), SamplingParams(max_tokens=1, seed=row, **one))
        for row, one in enumerate(wishes)
    ]
    best = logits.amax(-1).tolist()
    drawn = sampler._drawn_together(logits, sequences, best)
    alone = sample(logits, sequences)
    assert set(drawn) == {1, 4}
    assert {row: one.token_id for row in drawn if (one := alone[row])} == drawn
