"""What the engine asks of a grammar."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt


class GrammarKind(Enum):
    """How a grammar is written down."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A grammar as a request states it, not yet compiled.

    Attributes:
        source: a JSON schema as JSON text, a regular expression, or a Lark grammar.
        field: the request's field, for errors.
        strict: whether a part of a schema that cannot be enforced is an error; otherwise it is left out.
    """

    kind: GrammarKind
    source: str
    field: str
    strict: bool = True


class Grammar(Protocol):
    """How far one answer has come in its grammar. Belongs to a sequence, so it outlives a preemption.

    Used by one thread at a time. The contract test is `tests/engine/grammar/test_grammar.py`.
    """

    @property
    def finished(self) -> bool:
        """Whether the answer is complete and nothing but an end token could follow."""
        ...

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Return which token ids may come next, [tokenizer's vocabulary]; an end token only if the answer may end.

        All are false once the grammar has failed.
        """
        ...

    def accept(self, token_id: int) -> bool:
        """Go on past a token; False when it is not allowed or the grammar is too hard, and from then on."""
        ...

    def fork(self) -> "Grammar":
        """Return a state of its own at the same place, for another answer to the same prompt."""
        ...


class GrammarCompiler(Protocol):
    """Turns specifications into grammars; may be called from any thread."""

    def compile(self, spec: GrammarSpec) -> Grammar:
        """Compile, bounded in time and memory.

        Raises:
            RequestError: 400 naming the field, when the grammar is malformed, unsupported or too large.
        """
        ...
