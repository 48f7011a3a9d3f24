"""The documents say what the code does: settings, examples, links, dependencies, and the quick start itself."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.packaged import SHA256
from gateway.settings import load_settings
from tests.servers.running_set import ROOT, RunningSet

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
KEY = "lam_readme-0123456789abcdef0123456789"


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def _links(path: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    return [target for target in targets if "://" not in target]


def test_the_table_of_settings_is_the_codes_own() -> None:
    script = ROOT / "scripts" / "settings_table.py"
    done = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, check=True)
    _, _, written = (ROOT / "docs" / "configuration.md").read_text("utf-8").partition("<!-- settings -->\n")
    assert written == done.stdout, "run: python scripts/settings_table.py"
    assert "|  |\n" not in written, "a setting has no meaning in its docstring"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    assert [target for target in _links(path) if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_examples_of_settings_are_accepted(path: Path, tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    for number, text in enumerate(_blocks(path, "toml")):
        example = tmp_path / f"{number}.toml"
        example.write_text(text, "utf-8")
        load_settings(keys, example)


def test_every_variable_named_is_a_setting() -> None:
    known = set(re.findall(r"`(LAMINA_\w+)`", (ROOT / "docs" / "configuration.md").read_text("utf-8")))
    known |= set(re.findall(r"\$\{(LAMINA_\w+):-", (ROOT / "docker-compose.yml").read_text("utf-8")))
    for path in DOCUMENTS:
        named = set(re.findall(r"\b(LAMINA_[A-Z_]+[A-Z])\b", path.read_text("utf-8")))
        settings = {name if name in known else name.removesuffix("_FILE") for name in named}
        assert settings - known <= {"LAMINA_KEY", "LAMINA_CONFIG"}, path.name


def test_every_dependency_is_explained() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8").lower()
    for file in sorted((ROOT / "requirements").glob("*.in")):
        for line in file.read_text("utf-8").splitlines():
            name = re.split(r"[\[<=> ]", line)[0]
            assert line.startswith(("#", "-")) or name in text, name


def test_both_checks_of_the_packaged_model_agree() -> None:
    assert SHA256 in (ROOT / "scripts" / "install.py").read_text("utf-8")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSet]:
    home = tmp_path_factory.mktemp("readme") / "home"
    one = RunningSet(home, {"LAMINA_BOOTSTRAP_KEY": KEY}).start()
    yield one
    one.close()


def _run(running: RunningSet, command: list[str], code: str) -> str:
    environment = {"PATH": os.environ["PATH"], "LAMINA_KEY": KEY}
    code = code.replace("http://127.0.0.1:8080", running.url)
    done = subprocess.run(
        [*command, code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's quick start uses curl, which is not here")
def test_the_quick_start_answers_and_then_hits(running: RunningSet) -> None:
    ask, _ = _blocks(ROOT / "README.md", "sh")
    first, second = (_run(running, ["bash", "-euc"], ask) for _ in range(2))
    assert first.startswith("HTTP/1.1 200")
    assert "cache-status: lamina; fwd=uri-miss; fwd-status=200; stored" in first
    assert re.search(r"cache-status: lamina; hit; ttl=\d+; detail=exact", second)
    assert re.search(r"^age: \d+", second, re.MULTILINE)
    assert _content(first) == _content(second) == "The capital of France is Paris."


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's example uses curl, which is not here")
def test_the_same_question_in_other_words_is_found(tmp_path: Path) -> None:
    patient = {"LAMINA_SEMANTIC__DEADLINE_MS": "3000"}  # other tests may be busy beside it
    environment = {"LAMINA_BOOTSTRAP_KEY": KEY, "LAMINA_CACHE__MODE": "semantic", **patient}
    with contextlib.closing(RunningSet(tmp_path / "home", environment).start()) as running:
        ends = time.monotonic() + 30
        while '"semantic":"ok"' not in running.get("/readyz") and time.monotonic() < ends:
            time.sleep(0.2)
        _, ask = _blocks(ROOT / "README.md", "sh")
        told = re.findall(r"cache-status: lamina; (.*)\r?", _run(running, ["bash", "-euc"], ask))
    assert len(told) == 2
    assert "detail=semantic_none" in told[0]
    assert re.search("detail=semantic(_learn|_audit)?(;|$)", told[1].strip())


@pytest.mark.slow
def test_the_python_recipes_answer(running: RunningSet) -> None:
    for_openai, for_anthropic = _blocks(ROOT / "README.md", "python")
    assert _run(running, [sys.executable, "-c"], for_openai).strip() == "The capital of France is Paris."
    assert _run(running, [sys.executable, "-c"], for_anthropic).strip(), (
        "this protocol has no temperature: any text"
    )


@pytest.mark.slow
def test_the_set_says_what_it_is_ready_for(running: RunningSet) -> None:
    assert KEY not in running.output, "a key that the operator chose is not shown again"
    assert "curl -i" in running.output


def _content(answer: str) -> str:
    found = re.search(r'"content":"(.*?)"', answer)
    assert found is not None, answer
    return found[1]
