"""The examples of docs/prompt-cache.md, run as they stand against a whole set."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.servers.running_set import ROOT, RunningSet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
KEY = "lam_prompts-0123456789abcdef01234567"
TEXT = (ROOT / "docs" / "prompt-cache.md").read_text("utf-8")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSet]:
    one = RunningSet(tmp_path_factory.mktemp("doc") / "home", {"LAMINA_BOOTSTRAP_KEY": KEY}).start()
    yield one
    one.close()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def run(running: RunningSet, command: list[str], code: str) -> str:
    environment = {"PATH": os.environ["PATH"], "LAMINA_KEY": KEY}
    code = code.replace("http://127.0.0.1:8080", running.url)
    done = subprocess.run(
        [*command, code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def numbers(line: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", line)]


def test_the_openai_example_reads_the_second_time(running: RunningSet) -> None:
    first, second = run(running, [sys.executable, "-c"], blocks("python")[0]).splitlines()
    total, cached = numbers(first)
    assert total > 150
    assert cached < 48
    assert numbers(second)[1] > 120


def test_the_anthropic_example_creates_then_reads(running: RunningSet) -> None:
    first, second = run(running, [sys.executable, "-c"], blocks("python")[1]).splitlines()
    created, read, _ = numbers(first)
    assert created > 120
    assert read < 48
    assert numbers(second)[1] > 120


@pytest.mark.skipif(shutil.which("curl") is None, reason="the example uses curl, which is not here")
def test_the_warm_up_answers_nothing(running: RunningSet) -> None:
    (ask,) = blocks("sh")
    for _ in range(2):
        told = json.loads(run(running, ["bash", "-euc"], ask))
        assert told["choices"][0]["message"]["content"] == ""
        assert told["usage"]["completion_tokens"] == 0
