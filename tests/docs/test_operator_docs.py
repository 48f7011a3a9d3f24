"""The examples of pages for operators (admin-api, explain, warm-up, replay, prefix-doctor), run as they stand."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.running_set import ROOT, RunningSet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
KEY = "lam_operators-0123456789abcdef0123456"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSet]:
    one = RunningSet(tmp_path_factory.mktemp("docs") / "home", {"LAMINA_BOOTSTRAP_KEY": KEY}).start()
    yield one
    one.close()


def ran(document: str, folder: Path, home: Path, url: str = "") -> str:
    """All shell blocks of a page, one after another in one folder."""
    text = (ROOT / "docs" / document).read_text("utf-8")
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    script = script.replace("http://127.0.0.1:8080", url)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": programs, "LAMINA_HOME": str(home), "LAMINA_API_KEY": KEY, "LAMINA_CONFIG": os.devnull}
    environment |= {"LAMINA_DATABASE_DEADLINE_MS": "20000"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_warming_up(running: RunningSet, tmp_path: Path) -> None:
    said = ran("warm-up.md", tmp_path, running.home)
    figures = dict(re.findall(r"^(\S.*?) +(\d+)$", said, re.MULTILINE))
    assert (figures["requests"], figures["done before"]) == ("3", "0")
    refused = sum(int(count) for name, count in figures.items() if name.startswith("refused"))
    assert int(figures["stored"]) + refused == 3, "the small model may ramble on until it is cut"


def test_explaining(running: RunningSet, tmp_path: Path) -> None:
    said = ran("explain.md", tmp_path, running.home, running.url)
    assert said.startswith("MISS\nNo answer is stored under this key.")
    assert "\nabsent\n" in said
    assert json.loads(said[said.rindex("\n{") if "\n{" in said else said.rindex("{") :])["used"] is False


def test_encryption_and_erasure(running: RunningSet, tmp_path: Path) -> None:
    assert ran("encryption.md", tmp_path, running.home).startswith("master key")
    said = ran("erasure.md", tmp_path, running.home)
    assert re.search(r"database_files +1 +1 +1 +0", said)


def test_the_administrators_api(running: RunningSet, tmp_path: Path) -> None:
    said = ran("admin-api.md", tmp_path, running.home, running.url)
    assert '"name":"acme"' in said
    assert '"modes":{"smollm2":"observe"},"announced":true' in said
    assert re.search(r"limits\.set +acme", said)
    assert re.search(r"token:A[0-9A-F]{16} +modes\.set +acme", said)


def test_replaying(tmp_path: Path) -> None:
    assert "exact only keeps the bound" in ran("replay.md", tmp_path, tmp_path / "home")
    assert json.loads((tmp_path / "found.json").read_text())["keeps"] is True
    assert (tmp_path / "replay.html").stat().st_size > 5_000


def test_the_prefix_doctor(tmp_path: Path) -> None:
    said = ran("prefix-doctor.md", tmp_path, tmp_path / "home")
    assert re.search(r"^1 time +messages\[0\]\.content +gpt-4o-mini +39 ", said, re.MULTILINE), said


def test_versions(running: RunningSet, tmp_path: Path) -> None:
    said = ran("versions.md", tmp_path, running.home, running.url)
    assert '"taken":["product-docs@2026-11-01","support@7"]' in said
    assert '"outcome":"registered"' in said
    assert re.search(r"support@7 +prompt +product-docs +1 digests", said)
