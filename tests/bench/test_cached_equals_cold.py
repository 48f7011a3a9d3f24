"""The proof that the prefix cache changes no answer runs on any model and notices a difference."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cached_equals_cold import Talk, _compare
from tests.engine import tiny


def test_a_difference_is_counted() -> None:
    same, other = Talk([], answers=[[1, 2], [3]]), Talk([], answers=[[1, 2], [4]])
    assert _compare([same], [other]) == {"conversations": 1, "answers": 2, "answers_that_differ": 1}


@pytest.mark.slow
def test_cached_and_batched_equals_cold_and_alone(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "traces").mkdir()
    turns = [{"role": role, "content": f"hello the world {role}" * 3} for role in ("user", "assistant") * 3]
    with gzip.open(tmp_path / "traces" / "sgd_dialogues.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(
            "".join(json.dumps({"messages": [{**turns[0], "content": f"{n}"}, *turns[1:]]}) + "\n" for n in "ab")
        )
    chat = {"turns": ["tell me all of it", "and again"]}
    (tmp_path / "prompts" / "mt_bench.jsonl").write_text(json.dumps(chat) + "\n")
    folder = tiny.write_folder(tmp_path / "model")
    argv = [sys.executable, "-m", "bench.cached_equals_cold", "--data", str(tmp_path), "--model", str(folder)]
    told = subprocess.run(
        [*argv, "--threads", "1", "--json"], capture_output=True, text=True, check=True, timeout=100
    )
    report = json.loads(told.stdout)
    talked = report["traces/sgd_dialogues.jsonl.gz"]
    assert (talked["answers"], talked["answers_that_differ"]) == (6, 0)
    assert talked["cached_tokens"] > 0 == talked["cached_tokens_cold"]
    assert report["prompts/mt_bench.jsonl"]["answers"] == 2
