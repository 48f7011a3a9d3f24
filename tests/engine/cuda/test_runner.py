"""The device's runner gives the CPU runner's answers, recorded or not; on the GPU where there is one."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.attention.cuda_choice import AttentionChoice
from engine.cuda import build
from engine.cuda.attend import importable
from engine.cuda.build import DeviceSpec, prepare_device
from engine.cuda.runner import DeviceRunner
from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, Transfers
from engine.loader import open_checkpoint
from engine.models import MODELS
from engine.models.read_decoder import read_decoder
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan, Work
from tests.engine import tiny
from tests.engine.attention.pools import DEVICE
from tests.engine.cuda.doubles import FakeRecorder, TableAttention

needs_triton = pytest.mark.skipif("triton" not in importable(), reason="triton is not installed")
PROMPTS = [tuple(range(5, 5 + length)) for length in (3, 16, 17, 40, 4, 31)]
SPEC = {
    "device": DEVICE,
    "block_size": 4,
    "max_rows": 6,
    "step_tokens": 32,
    "dtype": "fp32",
    "kv_dtype": "fp32",
    "num_blocks": 128,
}


def device_runner(folder: Path, recorder: FakeRecorder | None = None, **choices: Any) -> DeviceRunner:
    """A runner over a model on disk; without a GPU its recordings are fakes."""
    checkpoint = open_checkpoint(folder)
    saved = choices.pop("saved", None)
    recorder = recorder or FakeRecorder()
    prepared = prepare_device(
        checkpoint.config,
        read_decoder(checkpoint.config, checkpoint.weights),
        DeviceSpec(**(SPEC | choices)),
        **({"recorder": lambda _: recorder} if DEVICE == "cpu" else {}),
    )
    return prepared.runner() if saved is None else prepared.runner(saved)


def recorded_runner(monkeypatch: pytest.MonkeyPatch, folder: Path, **choices: Any) -> DeviceRunner:
    """One whose decode steps are recorded even here, over attention in torch."""
    if DEVICE == "cuda":
        return device_runner(folder, **choices)
    choice = AttentionChoice("torch", "torch", "a test's own")
    monkeypatch.setattr(build, "first_that_works", lambda *_: choice)
    monkeypatch.setattr(
        build, "make_attention", lambda _, kv, shape: TableAttention(kv, shape.heads, shape.score_scale)
    )
    return device_runner(folder, **choices)


def sequences(count: int = 6, max_tokens: int = 8) -> list[Sequence]:
    params = SamplingParams(max_tokens=max_tokens, temperature=0)
    return [tiny.new_sequence(seq_id, prompt, params) for seq_id, prompt in enumerate(PROMPTS[:count])]


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("recorded", [True, False])
def test_it_gives_the_cpu_runner_s_answers(
    family: str, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny.small_config(max_running=6)
    folder = tiny.write_folder(tmp_path, tiny.Shape(family=family))
    expected = tiny.generate(tiny.build_runner(folder, config)[1], config, sequences())
    runner = recorded_runner(monkeypatch, folder) if recorded else device_runner(folder, attention="sdpa")
    tiny.poison(runner.kv)
    assert tiny.generate(runner, config, sequences()) == expected
    if recorded:
        cache = runner.graphs.cache
        assert (len(cache), cache.failed, cache.eager) == (4, 0, 0)
        assert cache.replays > 0
        assert torch.equal(runner.decode.greedy, runner.decode.logits.argmax(-1))
    else:
        assert runner.graphs is None


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_own_kernels_give_them_too(family: str, tmp_path: Path) -> None:
    config = tiny.small_config(max_running=3)
    folder = tiny.write_folder(tmp_path, tiny.Shape(family=family))
    expected = tiny.generate(tiny.build_runner(folder, config)[1], config, sequences(3, 4))
    runner = device_runner(folder, attention="triton", max_rows=3)
    tiny.poison(runner.kv)
    assert tiny.generate(runner, config, sequences(3, 4)) == expected
    assert runner.graphs.cache.replays > 0


def test_a_step_that_cannot_be_recorded_runs_eagerly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if DEVICE == "cuda":
        pytest.skip("a real recorder does not fail on demand")
    config, folder = tiny.small_config(max_running=6), tiny.write_folder(tmp_path)
    expected = tiny.generate(tiny.build_runner(folder, config)[1], config, sequences())
    runner = recorded_runner(monkeypatch, folder, recorder=FakeRecorder(fails=(1, 2)))
    assert tiny.generate(runner, config, sequences()) == expected
    cache = runner.graphs.cache
    assert (len(cache), cache.failed) == (2, 2)
    assert cache.eager > 0


def test_on_a_full_hit_a_recorded_step_writes_nothing_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = recorded_runner(monkeypatch, tiny.write_folder(tmp_path))
    (sequence,) = sequences(1)
    sequence.tables = [[5]]
    runner.run(Plan((Work(sequence, 0, 3, 0),)))
    before = runner.kv.pools[0].values[:, 20:24].clone()
    first = runner.run(Plan((Work(sequence, 2, 1, 3),))).clone()
    assert torch.equal(runner.kv.pools[0].values[:, 20:24], before)
    replays = runner.graphs.cache.replays
    assert replays == 1
    again = runner.run(Plan((Work(sequence, 2, 1, 2),)))
    torch.testing.assert_close(again, first)
    assert not torch.equal(runner.kv.pools[0].values[:, 20:24], torch.zeros_like(before))


def test_logits_come_in_the_order_of_the_work_and_only_where_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = recorded_runner(monkeypatch, tiny.write_folder(tmp_path))
    found = sequences(4)
    for index, sequence in enumerate(found):
        sequence.tables = [list(range(20 * index, 20 * index + 15))]
    whole = [runner.run(Plan((Work(one, 0, len(one.prompt_ids), 0),))).clone() for one in found]
    long, middle, short, last = found[3], found[2], found[0], found[1]
    mixed = Plan(
        (Work(long, 39, 1, 39), Work(middle, 10, 7, 10), Work(short, 2, 1, 2), Work(last, 0, 15, 0)),
    )
    expected = torch.cat((whole[3], whole[2], whole[0]))
    torch.testing.assert_close(runner.run(mixed), expected, rtol=1e-4, atol=1e-4)
    single = Plan((Work(last, 14, 1, 14), Work(short, 2, 1, 2), Work(long, 39, 1, 39)))
    replays = runner.graphs.cache.replays
    torch.testing.assert_close(runner.run(single), torch.cat((whole[0], whole[3])), rtol=1e-4, atol=1e-4)
    assert runner.graphs.cache.replays == replays + 1
    assert runner.run(Plan(())).shape == (0, runner.model.config.vocab)


def test_transfers_come_before_the_step_that_needs_them(tmp_path: Path) -> None:
    kept: dict[bytes, bytes] = {}

    def keep(digest: bytes, group: int, payload: bytes) -> None:
        kept[digest] = payload

    runner = device_runner(tiny.write_folder(tmp_path), saved=keep)
    (sequence,) = sequences(1)
    sequence.tables = [[5]]
    expected = runner.run(Plan((Work(sequence, 0, 3, 0),))).clone()
    other = tiny.new_sequence(9, tuple(range(100, 104)))
    other.tables = [[5]]
    save = Transfers(saves=(BlockSave(0, 5, b"five"),))
    runner.run(Plan((Work(other, 0, 4, 0),), transfers=save))
    assert list(kept) == [b"five"]
    sequence.tables = [[7]]
    bring_back = Transfers(restores=(BlockRestore(0, 6, b"five", kept[b"five"]),), copies=(BlockCopy(0, 6, 7, 2),))
    found = runner.run(Plan((Work(sequence, 2, 1, 2),), transfers=bring_back))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
