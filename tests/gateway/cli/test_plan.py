"""`lamina plan`: figures for machines and for people, on what is free here."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gateway.cli import lamina
from gateway.cli.plan import PlanError, Size, bar, free_memory_bytes, sized
from gateway.settings import load_settings
from tests.servers.running_set import ROOT


def run(*words: str) -> Result:
    return CliRunner().invoke(lamina, ["plan", *words])


def test_json_holds_the_published_figures() -> None:
    done = run("llama-3-8b", "--context", "8192", "--memory", "24GiB", "--kv-dtype", "bf16", "--json")
    assert done.exit_code == 0
    told = json.loads(done.output)
    assert told["kv"] == {
        "kind": "bf16",
        "bytes_per_token": 131072,
        "context": 8192,
        "bytes_per_sequence": 1 << 30,
    }
    assert (told["attention"], told["parameters"], told["sequences"]) == ("GQA", 8_030_261_248, 6)
    assert told["weights"] == {"kind": "fp16", "bytes": 2 * 8_030_261_248}
    mha = next(variant for variant in told["variants"] if variant["name"] == "MHA")
    assert mha["token_bytes"] == 4 * 131072


def test_a_person_reads_the_same() -> None:
    told = run("llama-3-8b", "--context", "131072", "--memory", "80G", "--kv-dtype", "bf16").output
    assert "128 KiB a token (bf16)" in told
    assert "16 GiB for 131,072 tokens" in told
    assert re.search(r"as built, bf16 \* .* 25\.0% .* 75\.0% .* █████ ", told)
    assert "--kv-dtype bf16 --kv-tokens" in told
    named = dict(re.findall(r"(LAMINA_ENGINE__\w+)=(\S+)", told))
    assert load_settings(named).engine.kv_dtype == "bf16", "the settings it names are settings"
    assert max(map(len, told.splitlines())) <= 120


def test_without_a_model_it_is_the_engines_own_on_this_machine() -> None:
    told = json.loads(run("--json").output)
    assert (told["model"], told["kv"]["context"]) == ("smollm2-135m", 8192)
    assert 0 < told["memory_bytes"] <= free_memory_bytes() * 2


def test_an_unknown_model_and_a_bad_size_are_refused_in_a_line() -> None:
    assert isinstance(run("llama-9").exception, PlanError)
    assert run("llama-3-8b", "--memory", "much").exit_code == 2
    assert run("llama-3-8b", "--context", "0").exit_code == 2


def test_no_room_is_said_so() -> None:
    assert "leave no room" in run("llama-3-70b", "--memory", "24GiB").output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024", 1024),
        ("24GiB", 24 << 30),
        ("24g", 24 << 30),
        ("1.5 KB", 1536),
        ("2TiB", 2 << 40),
        ("800M", 800 << 20),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert Size().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "-1G", "G", "1 PB", "1e9"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size().convert(text, None, None)


def test_bytes_for_people() -> None:
    shown = [sized(count) for count in (0, 1023, 1024, 131072, 1 << 30, 3 << 29, 5000 << 40)]
    assert shown == ["0 B", "1023 B", "1 KiB", "128 KiB", "1 GiB", "1.5 GiB", "5,000 TiB"]


def test_bars_are_as_long_as_their_share() -> None:
    assert [bar(share) for share in (0, 0.5, 1, 2, 0.03)] == ["", "█" * 10, "█" * 20, "█" * 20, "▋"]


def test_free_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:     4096 kB\n", "ascii")
    assert free_memory_bytes(meminfo, tmp_path) == 4 << 20
    (tmp_path / "memory.current").write_text("1000\n", "ascii")
    for limit, expected in (("max", 4 << 20), ("3000", 2000), ("500", 0), ("99999999", 4 << 20)):
        (tmp_path / "memory.max").write_text(f"{limit}\n", "ascii")
        assert free_memory_bytes(meminfo, tmp_path) == expected
    with pytest.raises(PlanError, match="--memory"):
        free_memory_bytes(tmp_path / "absent", tmp_path)


@pytest.mark.slow
def test_the_documents_examples_print_what_it_says() -> None:
    text = (ROOT / "docs" / "plan.md").read_text("utf-8")
    pairs = re.findall(r"```sh\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert len(pairs) == 2
    here = f"{shlex.quote(sys.executable)}"
    for command, expected in pairs:
        run_here = command.replace("lamina plan", f"{here} -m gateway plan").replace("python -c", f"{here} -c")
        done = subprocess.run(["bash", "-euc", run_here], cwd=ROOT, capture_output=True, text=True, check=True)
        shown = [line.rstrip() for line in done.stdout.splitlines()]
        assert shown[: len(expected.splitlines())] == expected.splitlines()
