"""Which class embeds which kind of model; a class is imported when it is chosen."""

import importlib
from pathlib import Path

from semantic.embedders.contract import Embedder, check_embedder
from semantic.errors import ConfigError, ModelError
from semantic.models.folder import read_config, read_pooling

EMBEDDERS: dict[str, str] = {
    "onnx": "semantic.embedders.onnx:OnnxEmbedder",
    "sentence": "semantic.embedders.sentence:SentenceEmbedder",
}
"""Kind → class; its constructor takes the model's folder or name and a number of threads."""


def load_embedder(model: str | Path, kind: str, threads: int) -> Embedder:
    """Loads a model and checks that it tells texts apart.

    Args:
        model: a folder, or a hub name.
        kind: of EMBEDDERS; `auto` takes `onnx` where it can run the model, else `sentence`.
        threads: that compute.

    Raises:
        ConfigError: there is no such kind.
        ModelError: the model cannot be loaded or computes nonsense.
    """
    kind = _kind_of(model) if kind == "auto" else kind
    if kind not in EMBEDDERS:
        raise ConfigError(f"embedder {kind!r} is unknown; known are auto, {', '.join(EMBEDDERS)}")
    module, _, name = EMBEDDERS[kind].partition(":")
    try:
        made: Embedder = getattr(importlib.import_module(module), name)(_place(model), threads)
    except ImportError as error:
        hint = "install what is missing, such as `pip install sentence-transformers`, or use a BERT-family folder"
        raise ModelError(
            f"the {kind!r} embedder, needed for {model}, cannot be imported ({error}); {hint}"
        ) from error
    check_embedder(made)
    return made


def _kind_of(model: str | Path) -> str:
    try:
        read_pooling(Path(model), read_config(Path(model)).positions)
    except ModelError:
        return "sentence"
    return "onnx"


def _place(model: str | Path) -> str | Path:
    return Path(model) if Path(model).is_dir() else model
