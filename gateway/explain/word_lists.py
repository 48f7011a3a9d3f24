"""The vetoes' word lists in a gateway: read when the first explanation needs them, then kept."""

import hashlib
from functools import cached_property
from importlib import resources

from policies.questions import Question
from policies.vetoes import Lexicon, explain, parse


class WordLists:
    """Tells every veto between two questions, and what it saw."""

    def vetoes(self, stored: Question, asked: Question) -> tuple[tuple[str, str], ...]:
        """Name and detail of each; nothing for two conversations, whose turns are compared otherwise."""
        if stored.history != asked.history or stored.text == asked.text:
            return ()
        return tuple(explain(stored.text, asked.text, self._lexicon))

    @cached_property
    def _lexicon(self) -> Lexicon:
        folder = resources.files("policies.vetoes") / "data"
        files = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".txt")}
        digest = hashlib.sha256("".join(f"{name}\0{files[name]}\0" for name in sorted(files)).encode())
        return parse(files, digest.hexdigest())
