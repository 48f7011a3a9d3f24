"""One tiny model per session, computed by one thread: on matrices this small a second one only waits."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engine import tiny


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with grouped queries and a byte-level tokenizer."""
    return tiny.write_folder(tmp_path_factory.mktemp("tiny"))
