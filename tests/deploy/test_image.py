"""What the images install: built from the build context alone, it holds every file of the packages."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.deploy import compose
from tests.deploy.compose import ROOT

pytestmark = pytest.mark.slow
PACKAGES = ("policies", "migrations", "engine", "semantic", "gateway")


def _fill(folder: Path) -> None:
    """The files that the stage `lamina` copies."""
    for stage in compose.stages().values():
        for word, rest in stage.lines:
            if word == "COPY" and stage.name == "lamina":
                for name in rest.split()[:-1]:
                    source = ROOT / name
                    if source.is_dir():
                        shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        shutil.copy(source, folder / name)


def test_the_wheel_of_the_context_holds_every_file(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    _fill(context)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(context)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("lamina-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = {
        str(path.relative_to(context))
        for package in PACKAGES
        for path in (context / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(files) > 300
    assert files - packed == set()


@pytest.mark.parametrize("module", ["gateway.__main__", "gateway.worker", "gateway.app", "semantic.__main__"])
def test_an_image_without_torch_needs_none(module: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import {module}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
