"""Models from disk. `open_checkpoint` picks the reader by what the path is."""

from pathlib import Path

from engine.errors import ModelError
from engine.loader.contract import Checkpoint, ModelConfig, RopeScaling, Weights
from engine.loader.folder_checkpoint import load_folder
from engine.loader.gguf_checkpoint import load_gguf

__all__ = ["Checkpoint", "ModelConfig", "RopeScaling", "Weights", "open_checkpoint"]


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a safetensors folder.

    Raises:
        ModelError: there is no such model, or it cannot be read.
    """
    if path.is_dir():
        return load_folder(path)
    if path.is_file():
        return load_gguf(path)
    raise ModelError(f"no model at {path}")
