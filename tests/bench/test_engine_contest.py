"""The engine's benchmark asks real children, and its ratios pair what was measured side by side."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.engine.answering import ids_from
from bench.engine.contest import Contestant, Task, measure, python_with, ratio, summary
from tests.engine import tiny


def test_ids_are_those_of_the_seed_and_inside_the_vocabulary() -> None:
    assert ids_from(3, 50, 265) == ids_from(3, 50, 265) != ids_from(4, 50, 265)
    assert all(0 <= token < 265 for token in ids_from(7, 1000, 265))
    assert ids_from(1, 3, 49152) == [ids_from(1, 9, 49152)[index] for index in range(3)]


def test_a_ratio_pairs_rounds_so_that_a_slow_moment_cancels() -> None:
    rates = {"ours": [10.0, 2.0, 30.0], "theirs": [5.0, 1.0, 15.0]}
    assert ratio(rates, "ours", "theirs") == 2.0
    assert ratio({"ours": [1.0], "theirs": []}, "ours", "theirs") is None
    assert summary(rates)["ours"] == {"median": 10.0, "min": 2.0, "max": 30.0}


def test_an_interpreter_without_the_module_is_no_peer() -> None:
    assert python_with("json", None) == sys.executable
    assert python_with("no_such_module_anywhere", None) is None


@pytest.mark.slow
def test_our_side_measures_every_task_it_names(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    argv = [sys.executable, "-m", "bench.engine.lamina_side", "--model", str(folder), "--threads", "1"]
    one = Contestant("lamina", argv, frozenset({"prefill", "decode", "cached", "generate", "generate_uncached"}))
    try:
        tasks = [
            Task("prefill", {"task": "prefill", "tokens": 40}, 40),
            Task("decode", {"task": "decode", "sequences": 2, "context": 8, "tokens": 4}, 8),
            Task("cached", {"task": "cached", "prefix": 64, "tail": 8}, 8),
            Task("generate", {"task": "generate", "context": 8, "tokens": 6}, 6),
            Task("generate_uncached", {"task": "generate_uncached", "context": 8, "tokens": 6}, 6),
        ]
        rates = measure([one], tasks, 2, lambda _: None)
        assert all(len(rates[task.name]["lamina"]) == 2 for task in tasks)
        assert all(rate > 0 for of in rates.values() for rate in of["lamina"])
        assert one.pss_bytes() > 1 << 20
    finally:
        one.close()


@pytest.mark.slow
def test_the_command_explains_itself() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.engine", "--help"], capture_output=True, text=True, check=True
    )
    assert "--peers-python" in told.stdout
