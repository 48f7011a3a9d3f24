"""Models from disk. `open_checkpoint` picks the reader by what the path is."""

from pathlib import Path

from engine.errors import ModelError
from engine.loader.contract import MALFORMED, Checkpoint, ModelConfig, RopeScaling, StoredWeight, Weights
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
    try:
        checkpoint = load_folder(path) if path.is_dir() else load_gguf(path)
    except MALFORMED as error:
        raise ModelError(f"{path}: a part of it is malformed: {error!r}") from error
    tokenizer, rows = checkpoint.tokenizer, checkpoint.config.vocab
    tokens = max([*tokenizer.backend.get_vocab().values(), tokenizer.bos_id or 0]) + 1
    if tokens > rows:
        raise ModelError(f"{path}: its tokenizer has {tokens} tokens, its embedding {rows} rows")
    return checkpoint
