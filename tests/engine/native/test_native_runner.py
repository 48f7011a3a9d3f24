"""The native step says what the torch step says, and a row's bits depend on nothing but its own tokens."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from engine.errors import EngineError
from engine.kv.contract import BlockCopy, BlockRestore, BlockSave, Transfers
from engine.native.library import Library
from engine.native.runner import NativeRunner
from engine.work import Plan
from tests.engine import tiny
from tests.engine.native.stepping import (
    Options,
    Text,
    logits_at,
    native_runner,
    schedulable,
    tables_for,
    work_of,
)

SHAPES = {
    "gqa": tiny.Shape(heads=6, kv_heads=2, head_dim=32, tied=False),
    "mha": tiny.Shape(heads=3, kv_heads=3, head_dim=16),
    "mqa": tiny.Shape(heads=7, kv_heads=1, head_dim=48, hidden=36),
    "wide": tiny.Shape(heads=4, kv_heads=1, head_dim=128, intermediate=50),
    "qwen2": tiny.Shape(family="qwen2", heads=8, kv_heads=2),
    "qwen3": tiny.Shape(family="qwen3", head_dim=64),
    "gemma3": tiny.Shape(family="gemma3", layers=6, window=70),
}
LENGTH = 300
IDS = [int(one) for one in torch.randint(0, 260, (LENGTH,), generator=torch.Generator().manual_seed(5))]
LENGTHS = (1, 3, 7, 40, 64, 65, 130, 257)
ONE_BY_ONE = [*range(200, LENGTH + 1)]
UNEVEN = [1, 2, 9, 64, 65, 127, 128, 200, 203, 256, LENGTH]


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_folder(tmp_path_factory.mktemp(request.param), SHAPES[request.param])


def test_logits_are_those_of_the_torch_runner(library: Library, folder: Path) -> None:
    options = Options()
    native = native_runner(library, folder, options)
    tiny.poison(native.kv)
    config = tiny.small_config(kv_tokens=1024)
    _, other = tiny.build_runner(folder, config)
    found = logits_at(native, Text(IDS), [*UNEVEN[:-1], *range(257, LENGTH + 1)])
    expected = tiny.engine_logits(other, config, IDS)
    for end, logits in found.items():
        torch.testing.assert_close(logits, expected[end - 1], rtol=1e-3, atol=2e-3)


def test_bits_do_not_depend_on_how_a_text_is_cut(library: Library, folder: Path) -> None:
    first, second, third = (native_runner(library, folder, Options(threads=threads)) for threads in (1, 2, 3))
    for runner in (first, second, third):
        tiny.poison(runner.kv)
    by_ones = logits_at(first, Text(IDS), ONE_BY_ONE)
    uneven = logits_at(second, Text(IDS, order=1), UNEVEN)
    at_once = logits_at(third, Text(IDS, order=2), [LENGTH])
    for found in (uneven, at_once):
        for end in set(found) & set(by_ones):
            assert torch.equal(found[end], by_ones[end]), f"position {end} differs in some bit"


def test_alone_equals_batched_bit_for_bit(library: Library, folder: Path) -> None:
    runner = native_runner(library, folder)
    alone = [logits_at(runner, Text(IDS[:length]), [length])[length] for length in LENGTHS]
    tiny.poison(runner.kv)
    texts = [Text(IDS[:length], tables=_own_blocks(runner, number)) for number, length in enumerate(LENGTHS)]
    # All but the last token of each in pieces, then one step that decodes some beside the rest of the others.
    done = [len(text.ids) // 2 for text in texts]
    for text, end in zip(texts[1:], done[1:], strict=True):
        runner.run(Plan((work_of(text, runner, 0, end),)))
    last = [work_of(text, runner, start, len(text.ids)) for text, start in zip(texts, done, strict=True)]
    together = runner.run(Plan(tuple(last)))
    for logits, expected in zip(together, alone, strict=True):
        assert torch.equal(logits, expected)


def _own_blocks(runner: NativeRunner, number: int) -> list[list[int]]:
    counts = [-(-length // 4) for length in LENGTHS]
    start = sum(counts[:number])
    return [order[start : start + counts[number]] for order in tables_for(runner, 0, 256)]


@pytest.mark.parametrize("kv_dtype", ["fp16", "bf16", "int8"])
@pytest.mark.parametrize("name", ["gqa", "gemma3"])
def test_quantised_keys_and_values(library: Library, tmp_path: Path, name: str, kv_dtype: str) -> None:
    folder = tiny.write_folder(tmp_path, SHAPES[name])
    options = Options(kv_dtype=kv_dtype)
    native = native_runner(library, folder, options)
    tiny.poison(native.kv)
    by_ones = logits_at(native, Text(IDS), ONE_BY_ONE)
    uneven = logits_at(native, Text(IDS, order=1), UNEVEN)
    assert torch.equal(uneven[LENGTH], by_ones[LENGTH])
    config = tiny.small_config(kv_tokens=1024)
    _, other = tiny.build_runner(folder, config, kv_dtype=kv_dtype)
    expected = tiny.engine_logits(other, config, IDS)
    error = max(float((by_ones[end] - expected[end - 1]).abs().max()) for end in ONE_BY_ONE)
    # Where a value lies between two quantised ones, the last bit of the sum decides; int8's steps are coarse.
    assert error <= (0.15 if kv_dtype == "int8" else 0.03) * float(expected.abs().max())


def test_stored_keys_and_values_are_the_torch_pools(library: Library, tiny_folder: Path) -> None:
    for kv_dtype in ("fp32", "fp16", "bf16", "int8"):
        native = native_runner(library, tiny_folder, Options(kv_dtype=kv_dtype, num_blocks=128))
        config = tiny.small_config(kv_tokens=512)
        _, other = tiny.build_runner(tiny_folder, config, kv_dtype=kv_dtype)
        with torch.inference_mode():
            for runner in (native, other):
                for part in runner.kv.pools[0].parts:
                    part.zero_()
        work = work_of(Text(IDS[:40]), native, 0, 40)
        native.run(Plan((work,)))
        other.run(Plan((work,)))
        first = [part[:1] for runner in (native, other) for part in runner.kv.pools[0].parts]
        half = len(first) // 2
        for mine, theirs in zip(first[:half], first[half:], strict=True):
            if kv_dtype == "int8" and mine.dtype == torch.int8:
                assert (mine.int() - theirs.int()).abs().max() <= 1
            else:
                torch.testing.assert_close(mine, theirs, rtol=2e-3, atol=1e-4)


def test_shared_blocks_are_read_and_never_written(library: Library, tiny_folder: Path) -> None:
    runner = native_runner(library, tiny_folder)
    tiny.poison(runner.kv)
    expected = logits_at(runner, Text(IDS[:24]), [16, 24])[24]
    before = runner.kv.pools[0].values.clone()
    # All 24 are in the pool: the last is computed again for its logits, and stored nowhere.
    again = runner.run(Plan((work_of(Text(IDS[:24], write_from=24), runner, 23, 24),)))[0]
    assert torch.equal(again, expected)
    assert torch.equal(runner.kv.pools[0].values.nan_to_num(), before.nan_to_num())


def test_transfers_are_carried_out_in_order(library: Library, tiny_folder: Path) -> None:
    saved: dict[bytes, bytes] = {}

    def keep(digest: bytes, group: int, payload: bytes) -> None:
        saved[digest] = payload

    runner = native_runner(library, tiny_folder)
    runner._saved = keep
    text = Text(IDS[:12])
    expected = logits_at(runner, text, [12])[12]
    blocks = tables_for(runner, 0, 3)[0]
    save = Transfers(saves=(BlockSave(0, blocks[0], b"first"),))
    assert runner.run(Plan((), transfers=save)).shape == (0, runner.config.vocab)
    moved = [blocks[0], 200, blocks[2]] if 200 not in blocks else [blocks[0], 201, blocks[2]]
    runner.kv.pools[0].values[:, blocks[0] * 4 : blocks[0] * 4 + 4] = torch.nan
    restore = Transfers(
        restores=(BlockRestore(0, blocks[0], b"first", saved[b"first"]),),
        copies=(BlockCopy(0, blocks[1], moved[1], 4),),
    )
    last = work_of(Text(IDS[:12], tables=[moved]), runner, 11, 12)
    assert torch.equal(runner.run(Plan((last,), transfers=restore))[0], expected)


def test_answers_through_the_scheduler_are_those_of_torch(library: Library, tiny_folder: Path) -> None:
    config = tiny.small_config(max_running=6, kv_tokens=1024)
    _, other = tiny.build_runner(tiny_folder, config)
    native = native_runner(library, tiny_folder)
    prompts = [tuple(range(5, 5 + length)) for length in (3, 16, 17, 40, 4, 31)]
    found = [
        tiny.generate(runner, config, [tiny.new_sequence(one, prompt) for one, prompt in enumerate(prompts)])
        for runner in (schedulable(native), other)
    ]
    assert found[0] == found[1]


def test_what_is_out_of_range_is_refused_before_anything_is_computed(library: Library, tiny_folder: Path) -> None:
    runner = native_runner(library, tiny_folder)
    for bad in ([[0, 1, -1]], [[0, 1, 256]], [[0, 1]]):
        work = work_of(Text(IDS[:12], tables=[[0, 1, 2]]), runner, 0, 12)
        work.sequence.tables = bad
        with pytest.raises(EngineError, match="is not in the pool"):
            runner.run(Plan((work,)))
    with pytest.raises(EngineError, match="outside the vocabulary"):
        runner.run(Plan((work_of(Text([1, 2, runner.config.vocab]), runner, 0, 3),)))
    with pytest.raises(EngineError, match="outside the model's context"):
        runner.run(Plan((work_of(Text([1] * 1025), runner, 1020, 1025),)))
    short = work_of(Text(IDS[:12]), runner, 0, 12)
    short.sequence.prompt_ids = tuple(IDS[:11])
    with pytest.raises(EngineError, match="no tokens up to position 12"):
        runner.run(Plan((short,)))


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("rows", [1, 9])
def test_a_row_of_nan_leaves_nothing_behind(library: Library, tmp_path: Path, family: str, rows: int) -> None:
    """Also not in the padding of rows whose size is no multiple of a vector."""
    runner = native_runner(library, tiny.write_folder(tmp_path, tiny.Shape(family=family, hidden=36)))
    tiny.poison(runner.kv)
    expected = logits_at(runner, Text(IDS[:rows]), [rows])[rows]
    sick = runner.run(Plan((work_of(Text(IDS[:40], order=1), runner, 40 - rows, 40),)))
    assert sick.isnan().any()
    assert torch.equal(logits_at(runner, Text(IDS[:rows], order=2), [rows])[rows], expected)


def test_a_closed_runner_says_so(library: Library, tiny_folder: Path) -> None:
    runner = native_runner(library, tiny_folder)
    runner.close()
    runner.close()
    with pytest.raises(EngineError, match="closed"):
        runner.run(Plan(()))


def test_a_runner_is_closed_between_steps(library: Library, tiny_folder: Path) -> None:
    """A daemon thread may be in a step when the interpreter exits."""
    runner = native_runner(library, tiny_folder)
    entered, opened, order = threading.Event(), threading.Event(), []

    def keep(digest: bytes, group: int, payload: bytes) -> None:
        entered.set()
        assert opened.wait(10)
        order.append("step")

    def close() -> None:
        runner.close()
        order.append("closed")

    runner._saved = keep
    save = Transfers(saves=(BlockSave(0, 0, b"any"),))
    with ThreadPoolExecutor(2) as pool:
        step = pool.submit(runner.run, Plan((work_of(Text(IDS[:3]), runner, 0, 3),), transfers=save))
        assert entered.wait(10)
        end = pool.submit(close)
        opened.set()
        assert step.result(10).isfinite().all()
        end.result(10)
    assert order == ["step", "closed"]


def test_heads_the_kernels_do_not_know_are_refused(library: Library, tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, tiny.Shape(heads=3, kv_heads=3, head_dim=10, hidden=32))
    with pytest.raises(EngineError, match="heads of 10"):
        native_runner(library, folder)
    with pytest.raises(EngineError, match="'fp8' is unknown"):
        native_runner(library, tiny.write_folder(tmp_path / "two"), Options(kv_dtype="fp8"))


def test_more_threads_than_cores_and_two_models_at_once(library: Library, tiny_folder: Path) -> None:
    """Threads that are not running are never waited for, and models share nothing."""
    runners = [native_runner(library, tiny_folder, Options(threads=threads)) for threads in (5, 4)]
    expected = logits_at(runners[0], Text(IDS[:40]), range(1, 41))

    def again(runner: NativeRunner) -> bool:
        found = [logits_at(runner, Text(IDS[:40]), range(1, 41)) for _ in range(10)]
        return all(torch.equal(one[end], expected[end]) for one in found for end in expected)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(again, runners))


@pytest.mark.slow
def test_a_process_ends_with_runners_left_open(library: Library, tiny_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from engine.native.build import build;"
        "from engine.native.library import Library; from tests.engine.native.stepping import *;"
        "kept = native_runner(Library(build()), Path(sys.argv[1]));"
        "print(logits_at(kept, Text([1, 2, 3]), [3])[3].shape[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_folder)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 0
