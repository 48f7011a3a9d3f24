"""Nothing reaches a sequence but its own tokens: not its neighbours, not what lay in its blocks before."""

from pathlib import Path

import pytest
import torch

from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, Transfers
from engine.loader import open_checkpoint
from engine.models import MODELS
from engine.models.read_decoder import read_decoder
from engine.runner import RunnerSpec, build_runner
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan, Work
from tests.engine import tiny

PROMPTS = [tuple(range(5, 5 + length)) for length in (3, 16, 17, 40, 4, 31)]


def sequences(prompts: list[tuple[int, ...]], temperature: float = 0) -> list[Sequence]:
    params = SamplingParams(max_tokens=20, temperature=temperature, seed=11)
    return [tiny.new_sequence(seq_id, prompt, params) for seq_id, prompt in enumerate(prompts)]


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize(("weights", "kv_dtype"), [("fp16", "fp32"), ("fp32", "fp32"), ("fp32", "int8")])
def test_alone_equals_batched_bit_for_bit(tmp_path: Path, family: str, weights: str, kv_dtype: str) -> None:
    """vllm#23138: company changes nothing."""
    config = tiny.small_config(max_running=6, weights=weights)
    shape = tiny.Shape(family=family, layers=7 if family == "gemma3" else 2)
    _, runner = tiny.build_runner(tiny.write_folder(tmp_path, shape), config, kv_dtype=kv_dtype)
    seen: dict[int, list[torch.Tensor]] = {}
    run = runner.run

    def recorded(plan: Plan) -> torch.Tensor:
        logits = run(plan)
        rows = [item.sequence.seq_id for item in plan.work if item.samples]
        for seq_id, row in zip(rows, logits, strict=True):
            seen.setdefault(seq_id, []).append(row.clone())
        return logits

    runner.run = recorded
    together = tiny.generate(runner, config, sequences(PROMPTS))
    batched, seen = seen, {}
    alone = [tiny.generate(runner, config, [one])[0] for one in sequences(PROMPTS)]
    assert alone == together
    for seq_id, rows in batched.items():
        assert torch.equal(torch.stack(rows), torch.stack(seen[seq_id])), f"sequence {seq_id} differs in some bit"


def test_seeded_sampling_is_the_same_alone_batched_and_after_preemption(tiny_folder: Path) -> None:
    roomy, tight = tiny.small_config(max_running=6), tiny.small_config(max_running=6, kv_tokens=64)
    _, runner = tiny.build_runner(tiny_folder, roomy)
    alone = [tiny.generate(runner, roomy, [one])[0] for one in sequences(PROMPTS, 1.0)]
    assert tiny.generate(runner, roomy, sequences(PROMPTS, 1.0)) == alone
    crowded = sequences(PROMPTS, 1.0)
    assert tiny.generate(runner, tight, crowded) == alone
    assert sum(one.num_preemptions for one in crowded) > 0


def test_what_lay_in_recycled_blocks_never_shows(tiny_folder: Path) -> None:
    config = tiny.small_config(kv_tokens=64)
    _, runner = tiny.build_runner(tiny_folder, config)
    fresh = tiny.generate(runner, config, sequences(PROMPTS[3:4]))
    tiny.generate(runner, config, sequences([tuple(range(200, 240))]))
    assert tiny.generate(runner, config, sequences(PROMPTS[3:4])) == fresh
    tiny.poison(runner.kv)
    assert tiny.generate(runner, config, sequences(PROMPTS[3:4])) == fresh


def test_block_size_does_not_change_the_answer(tiny_folder: Path) -> None:
    found = []
    for block_size in (1, 4, 16):
        config = tiny.small_config(block_size=block_size)
        _, runner = tiny.build_runner(tiny_folder, config)
        found.append(tiny.generate(runner, config, sequences(PROMPTS)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 15, 16, 17])
def test_prompts_at_block_and_chunk_edges(tiny_folder: Path, length: int) -> None:
    """nano-vllm#144: no edge leaves a step without a query."""
    config = tiny.small_config()
    checkpoint, runner = tiny.build_runner(tiny_folder, config)
    tiny.poison(runner.kv)
    prompt = tuple(range(20, 20 + length))
    (found,) = tiny.generate(runner, config, sequences([prompt]))
    weights = tiny.random_weights(tiny.Shape(), checkpoint.config.vocab)
    ids = list(prompt)
    for token in found:
        logits = tiny.plain_logits(weights, checkpoint.config, ids)[-1]
        assert float(logits[token]) >= float(logits.max()) - 1e-3
        ids.append(token)


def test_transfers_are_carried_out_before_the_step_reads(tiny_folder: Path) -> None:
    """A prefix that was saved, lost and restored, and then copied, gives the logits it gave before."""
    config = tiny.small_config()
    checkpoint = open_checkpoint(tiny_folder)
    kept: dict[tuple[bytes, int], bytes] = {}
    runner = build_runner(
        checkpoint.config,
        read_decoder(checkpoint.config, checkpoint.weights),
        RunnerSpec("fp32", (8,), config.block_size),
        lambda digest, group, payload: kept.__setitem__((digest, group), payload),
    )
    first = tiny.new_sequence(0, tuple(range(5, 14)))
    first.tables = [[2, 4, 6]]
    expected = runner.run(Plan((Work(first, 0, 9, 0),)))
    assert runner.run(Plan((), transfers=Transfers(saves=(BlockSave(0, 2, b"d"),)))).shape == (0, 265)
    payload = kept[b"d", 0]
    assert len(payload) == runner.kv.block_bytes(0)
    tiny.poison(runner.kv)
    again = tiny.new_sequence(1, first.prompt_ids)
    again.tables = [[1, 3, 5]]
    transfers = Transfers(restores=(BlockRestore(0, 7, b"d", payload),), copies=(BlockCopy(0, 7, 1, 4),))
    found = runner.run(Plan((Work(again, 4, 5, 4),), transfers=transfers))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="not a block"):
        runner.run(Plan((), transfers=Transfers(restores=(BlockRestore(0, 7, b"d", b"short"),))))
