"""`lamina replay`: findings on the terminal, as JSON and as a page, and an exit status for pipelines."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from gateway.cli import lamina
from gateway.cli.replay import replay
from gateway.replay.charts import Axis, RootAxis
from gateway.replay.errors import ReplayError
from gateway.settings import load_settings
from tests.gateway.replay.logs import lines, write

_PAGE_BYTES = 100_000


def run(log: Path, *words: str) -> Result:
    return CliRunner().invoke(lamina, ["replay", str(log), *words])


@pytest.fixture(autouse=True)
def _no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.jsonl", lines(500))


def found(done: Result) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done.output)
    return told


def test_the_same_log_gives_the_same_figures(log: Path) -> None:
    first, second = (run(log, "--policy", "exact", "--json", "-") for _ in range(2))
    assert first.exit_code == 0
    assert first.output == second.output
    told = found(first)
    assert (told["requests"], told["tenants"], told["labelled"]) == (500, 2, 500)
    exact = told["policies"]["exact only"]
    assert exact["wrong"] == exact["unknown"] == 0
    assert 0.2 < exact["hit_share"] < 0.9
    layer = exact["layers"]["exact"]
    assert layer["hits"] == exact["hits"]
    assert layer["latency_saved_ms"] == 900 * layer["hits"]
    assert sum(exact["misses"].values()) + exact["hits"] == 500


@pytest.mark.parametrize(("bound", "status"), [("0.02", 0), ("0.001", 1)])
def test_the_bound_sets_the_exit_status(log: Path, bound: str, status: int) -> None:
    done = run(log, "--policy", "exact", "--max-wrong", bound)
    assert done.exit_code == status, done.output
    assert ("keeps the bound" in done.output) is (status == 0)
    if status:
        assert "takes 3,838 requests to show that" in " ".join(done.output.split())


def test_hits_that_nobody_can_judge_count_as_wrong(tmp_path: Path) -> None:
    made = [{"t": number, "prompt": "What is a noun?", "answer": f"A word, {number}."} for number in range(400)]
    done = run(write(tmp_path / "log", made), "--policy", "exact", "--max-wrong", "0.05")
    assert done.exit_code == 1
    assert "399 hits have neither ids nor equal answers" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--tune",), "--max-wrong"),
        (("--choose", "0.77"), "--choose takes"),
        (("--choose", "layer", "--policy", "exact"), "not among"),
        (("--tune", "--max-wrong", "0.1", "--choose", "exact"), "--tune tunes the layer"),
    ],
)
def test_wishes_that_contradict_themselves(log: Path, words: tuple[str, ...], problem: str) -> None:
    done = run(log, *words)
    assert isinstance(done.exception, ReplayError)
    assert problem in str(done.exception)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no line"),
        ('{"prompt": "x"}\n{"prompt": 3}\n', "line 2"),
        ('{"prompt": "x", "t": 2}\n\n{"prompt": "x", "t": 1}\n', "line 3"),
        ('{"request": {"messages": []}}\n', "line 1"),
        ("{broken\n", "line 1"),
    ],
)
def test_logs_that_are_none(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    done = run(file, "--policy", "exact")
    assert isinstance(done.exception, ReplayError)
    assert problem in str(done.exception)


def test_the_page_is_whole_and_asks_nobody(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "replay.html"
    prices = ("--prompt-price", "1", "--completion-price", "2")
    assert run(log, "--policy", "exact", "--html", str(page), "--max-wrong", "0.02", *prices).exit_code == 0
    text = page.read_text("utf-8")
    assert len(text) < _PAGE_BYTES
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"<script|<link|<img|https?://|url\(|@import", text)
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        assert ET.fromstring(drawing).find("title") is not None  # noqa: S314  (our own)
    assert "cost saved" in text


@pytest.mark.parametrize("most", [0.003, 0.1, 0.37, 1.0, 7.0, 1500.0, 123456.0])
def test_axes_have_a_few_round_ticks_that_reach_the_end(most: float) -> None:
    axis = Axis("x", most, str)
    assert axis.end >= most * 0.999
    assert 4 <= len(axis.ticks()) <= 8
    assert axis.part(axis.end) == 1.0
    if most <= 1:
        roots = RootAxis("x", most, str)
        assert roots.ticks()[0] == 0.0
        assert roots.ticks() == sorted(set(roots.ticks()))
        assert roots.part(most / 4) == pytest.approx(0.5)


@pytest.mark.slow
def test_all_policies_and_tuned_settings(tmp_path: Path) -> None:
    log = write(tmp_path / "log", lines(160))
    out = tmp_path / "found.json"
    done = run(log, "--tune", "--max-wrong", "0.2", "--json", str(out), "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 0, done.output
    told = json.loads(out.read_text())
    policies = told["policies"]
    assert {f"threshold {least}" for least in ("0.80", "0.85", "0.90", "0.95")} < policies.keys()
    assert {"exact only", "layer 0.5 %", "layer 1 %", "layer 2 %", "layer 20 %"} < policies.keys()
    assert policies["threshold 0.80"]["wrong"] > policies["layer 20 %"]["wrong"]
    tuned = told["tuned"]
    assert tuned["tuning"]["requests"] == tuned["checked"]["requests"] == 80
    example = tmp_path / "lamina.toml"
    example.write_text(tuned["toml"])
    assert load_settings({}, example).semantic.max_wrong == tuned["max_wrong"]
    assert "Recommended" in done.output


def test_the_command_is_in_the_table() -> None:
    assert replay.name == "replay"
    shown = CliRunner().invoke(lamina, ["--help"])
    assert shown.exit_code == 0
    for name in ("explain", "warm", "replay"):
        assert name in shown.output
