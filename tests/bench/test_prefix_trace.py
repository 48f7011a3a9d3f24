"""A small trace, written by the test, through the replay that measures the recorded one."""

import gzip
import json
from pathlib import Path

import pytest

from bench.prefix_trace import Request, build_cache, main, read_trace, replay, tokens_of


def write_trace(file: Path, prompts: list[list[int]]) -> Path:
    """One request a second."""
    lines = [json.dumps({"timestamp": 1000 * at, "hash_ids": ids}) for at, ids in enumerate(prompts)]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return file


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two sessions over a common first block, three turns each, and a stranger between them."""
    turns = [[0, 1], [0, 11], [0, 1, 2], [900, 901, 902], [0, 11, 12], [0, 1, 2, 3], [0, 11, 12, 13]]
    return write_trace(tmp_path / "trace.jsonl.gz", turns)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    main([*arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_unlimited_finds_every_block_that_was_there_before(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, str(trace), "--blocks", "unlimited")
    assert (found["blocks"], found["blocks_hit"]) == (21, 1 + 2 + 2 + 3 + 3)
    assert found["block_hit_rate"] == pytest.approx(11 / 21, abs=1e-6)
    assert found["evictions"] == {}


@pytest.mark.parametrize("policy", ["lru", "hit-density"])
@pytest.mark.parametrize("block_size", ["512", "128"])
def test_a_bound_costs_hits(policy: str, block_size: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, str(trace), "--blocks", "4", "--policy", policy, "--block-size", block_size)
    assert 0 < float(str(found["block_hit_rate"])) < 11 / 21
    assert found["requests_refused"] == 0
    assert set(found) >= {"hash_and_lookup_ns_per_token", "seconds", "fraction_in_cache"}


def test_a_prompt_larger_than_the_pool_is_counted_and_passed_over(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, str(trace), "--blocks", "3")["requests_refused"] == 2


def test_least_recently_used_as_by_hand() -> None:
    """Three blocks: tails go first, so of [1, 2] only 2 gives way to [3, 4]."""
    requests = [Request(0.0, ids) for ids in ((1, 2), (3, 4), (1, 2), (3, 4))]
    kv = build_cache(3, "lru", 512)
    assert replay(requests, kv).hits == 1 + 1
    kv.check([])


def test_blocks_share_no_token() -> None:
    assert len(set(tokens_of([0, 1, 5]))) == 3 * 512


def test_a_broken_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text('{"hash_ids": [1]}\n{"hash": 1}\n', "utf-8")
    with pytest.raises(ValueError, match="line 2"):
        read_trace(file)
    with pytest.raises(SystemExit, match="line 2"):
        main([str(file)])


@pytest.mark.parametrize("arguments", [["--blocks", "0"], ["--blocks", "few"], ["--block-size", "100"]])
def test_bad_arguments_are_refused(arguments: list[str], trace: Path) -> None:
    with pytest.raises(SystemExit):
        main([str(trace), *arguments])
