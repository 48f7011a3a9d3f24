"""`lamina doctor`: findings on the terminal and as JSON, examples only where wanted, and an exit status."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import lamina

RULES = "You are the help desk of a railway. Answer in two sentences and name the page of the handbook. " * 12


@pytest.fixture(autouse=True)
def _no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def line(minute: int, model: str = "gpt-4o-mini") -> dict[str, object]:
    system = {"role": "system", "content": f"Guest canary-{minute % 7}, it is 10:{minute:02d}\x1b[31m. {RULES}"}
    messages = [system, {"role": "user", "content": "Where does it leave?"}]
    return {"t": minute, "request": {"model": model, "messages": messages}, "prompt_tokens": 400}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line(minute)) + "\n" for minute in range(20)), "utf-8")
    return path


def run(log: Path, *words: str) -> Result:
    return CliRunner().invoke(lamina, ["doctor", str(log), *words])


def test_it_names_the_field_its_place_its_price_and_the_remedy(log: Path) -> None:
    told = json.loads(run(log, "--json").output)
    assert (told["requests"], told["compared"], told["prompt_tokens"]) == (20, 19, 8000)
    found = told["findings"]
    assert {one["place"] for one in found} == {"messages[0].content"}
    assert sum(one["requests"] for one in found) == 19
    assert 7000 < told["lost_tokens"] < 8000
    assert all(float(one["lost_usd"]) > 0 and one["remedy"] for one in found)


def test_examples_quote_prompts_unless_told_not_to_and_never_steer_the_terminal(log: Path) -> None:
    assert "canary" in run(log).output
    assert "\x1b[31m" not in run(log).output
    assert "canary" not in run(log, "--no-text").output
    assert "canary" not in run(log, "--no-text", "--json").output


def test_the_share_that_is_lost_sets_the_exit_status(log: Path) -> None:
    assert run(log, "--max-lost", "0.5").exit_code == 1
    assert run(log, "--max-lost", "0.99").exit_code == 0


def test_a_healthy_log_says_so_and_a_model_without_a_price_costs_what_nobody_knows(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line(1)) + "\n" for _ in range(3)), "utf-8")
    assert "Nothing breaks a prefix" in run(path).output
    path.write_text("".join(json.dumps(line(minute, "own/model")) + "\n" for minute in range(3)), "utf-8")
    assert "unknown" in run(path).output
