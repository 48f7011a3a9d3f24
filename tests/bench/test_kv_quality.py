"""The benchmark of KV formats scores real text through the engine's own scheduler."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine import tiny

TEXT = "hello the world, tell me all of it. " * 12


@pytest.mark.slow
def test_formats_are_scored_on_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    with gzip.open(tmp_path / "prompts" / "wikitext2.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps({"text": f"{number} {TEXT}"}) + "\n" for number in range(3)))
    (tmp_path / "prompts" / "mt_bench.jsonl").write_text(json.dumps({"turns": ["hello"]}) + "\n")
    folder = tiny.write_folder(tmp_path / "model")
    argv = [sys.executable, "-m", "bench.kv_quality", "--data", str(tmp_path), "--model", str(folder), "--json"]
    argv += ["--windows", "2", "--tokens", "48", "--threads", "1"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=100)
    report = json.loads(told.stdout)
    formats = report["formats"]
    assert report["scored_tokens"] == 2 * (48 - 32)
    assert formats["fp32"]["top_token_agreement"] == 1
    assert formats["fp32"]["greedy_answers_identical"] == report["answers"] == 1
    assert formats["fp16"]["perplexity"] == pytest.approx(formats["fp32"]["perplexity"], rel=0.01)
    assert formats["int8"]["kv_bytes_per_token"] < formats["fp16"]["kv_bytes_per_token"]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["bench.kv_quality", "bench.cached_equals_cold"])
def test_a_folder_without_the_data_is_a_usage_error(module: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", module, "--data", str(tmp_path)]
    told = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 2
    assert f"--data {tmp_path} lacks " in told.stderr.splitlines()[-1]
