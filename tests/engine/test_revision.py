"""A revision tells models apart: by any file of a folder, by weights anywhere in a file, by the defaults."""

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.revision import model_revision

MIB = 1 << 20


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(8 * MIB))
    return path


def test_the_same_files_give_the_same_revision_wherever_they_are(gguf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / gguf.name
    copy.parent.mkdir()
    copy.write_bytes(gguf.read_bytes())
    assert model_revision(gguf, (None, 0.9)) == model_revision(copy, (None, 0.9))


def test_other_weights_other_sizes_and_other_defaults_are_other_revisions(gguf: Path) -> None:
    seen = {model_revision(gguf, (None, 0.9)), model_revision(gguf, (0.9, None))}
    for start in range(0, 8 * MIB, MIB):
        raw = bytearray(8 * MIB)
        raw[start : start + MIB] = b"\1" * MIB
        gguf.write_bytes(raw)
        seen.add(model_revision(gguf, (None, 0.9)))
    gguf.write_bytes(bytes(8 * MIB + 1))
    seen.add(model_revision(gguf, (None, 0.9)))
    assert len(seen) == 2 + 8 + 1


def test_each_file_of_a_folder_counts(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    seen = set()
    for name, text in (("config.json", "{}"), ("tokenizer.json", "{}"), ("config.json", "[]"), ("x", "")):
        (folder / name).write_text(text, "utf-8")
        seen.add(model_revision(folder, ()))
    (folder / "below").mkdir()
    seen.add(model_revision(folder, ()))
    assert len(seen) == 4


def test_a_model_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        model_revision(tmp_path / "absent.gguf", ())
