"""What computes: what was named, or the fastest that can be had."""

from pathlib import Path

import pytest

from engine import runners
from engine.errors import EngineError
from engine.loader import open_checkpoint
from engine.models.read_decoder import read_decoder
from engine.native.build import BuildError, built_library, find_compiler
from engine.native.runner import NativeRunner
from engine.native.support import machine_gap
from engine.runner import Runner, RunnerSpec
from engine.runners import find_kernels

SPEC = RunnerSpec("fp32", (16,), 4)


def made(folder: Path, name: str) -> object:
    checkpoint = open_checkpoint(folder)
    weights = read_decoder(checkpoint.config, checkpoint.weights)
    kernels = find_kernels(name, checkpoint.config, SPEC.kv_dtype)
    return kernels.runner(SPEC, weights, 1, lambda _digest, _group, _payload: None)


def test_torch_is_taken_when_it_is_named(tiny_folder: Path) -> None:
    assert isinstance(made(tiny_folder, "torch"), Runner)


@pytest.mark.skipif(
    machine_gap() is not None or (find_compiler() is None and built_library() is None),
    reason="no native kernels here: they take x86-64 with AVX2 and a C compiler",
)
@pytest.mark.parametrize("name", ["native", "auto"])
def test_native_is_taken_where_it_can_be_had(tiny_folder: Path, name: str) -> None:
    runner = made(tiny_folder, name)
    assert isinstance(runner, NativeRunner)
    assert runner.any_chunks


def test_without_native_kernels_auto_is_torch_and_native_is_refused(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler() -> Path:
        raise BuildError("no C compiler found")

    monkeypatch.setattr(runners, "build", no_compiler)
    monkeypatch.setattr(runners, "machine_gap", lambda: None)
    assert isinstance(made(tiny_folder, "auto"), Runner)
    with pytest.raises(EngineError, match="no C compiler found"):
        made(tiny_folder, "native")


def test_a_library_that_cannot_be_loaded_is_no_library(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(runners, "build", lambda: broken)
    monkeypatch.setattr(runners, "machine_gap", lambda: None)
    assert isinstance(made(tiny_folder, "auto"), Runner)
    with pytest.raises(EngineError, match="cannot be loaded"):
        made(tiny_folder, "native")


def test_a_kv_type_the_native_kernels_do_not_know_is_torchs(tiny_folder: Path) -> None:
    config = open_checkpoint(tiny_folder).config
    assert find_kernels("auto", config, "fp8").name == "torch"
    with pytest.raises(EngineError, match="'fp8'"):
        find_kernels("native", config, "fp8")
