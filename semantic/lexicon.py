"""The vetoes' word lists, read from the package's files."""

import hashlib
from importlib import resources

from policies.vetoes.lexicon import Lexicon, parse


def load_lexicon() -> Lexicon:
    """The lexicon of `policies/vetoes/data`; takes some tenths of a second, so load it once."""
    folder = resources.files("policies.vetoes") / "data"
    files = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".txt")}
    digest = hashlib.sha256("".join(f"{name}\0{files[name]}\0" for name in sorted(files)).encode())
    return parse(files, digest.hexdigest())
