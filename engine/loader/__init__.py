"""Models from disk. `open_checkpoint` picks the reader by what the path is."""

from pathlib import Path

from engine.errors import ModelError
from engine.loader.contract import Checkpoint, ModelConfig, RopeScaling, StoredWeight, Weights
from engine.loader.folder_checkpoint import load_folder
from engine.loader.gguf_checkpoint import load_gguf

__all__ = ["Checkpoint", "ModelConfig", "RopeScaling", "StoredWeight", "Weights", "open_checkpoint"]


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a safetensors folder.

    Raises:
        ModelError: there is no such model, or it cannot be read.
    """
    if not path.exists():
        raise ModelError(f"no model at {path}")
    checkpoint = load_folder(path) if path.is_dir() else load_gguf(path)
    tokens, rows = checkpoint.tokenizer.vocab_size, checkpoint.config.vocab
    if tokens > rows:
        raise ModelError(f"{path}: its tokenizer has {tokens} tokens, its embedding {rows} rows")
    return checkpoint
