"""One tiny model per session."""

from pathlib import Path

import pytest

from tests.engine import tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with grouped queries and a byte-level tokenizer."""
    return tiny.write_folder(tmp_path_factory.mktemp("tiny"))
