"""What a repository refuses, as opposed to a database that does not answer (`DatabaseUnavailable`)."""

from dataclasses import dataclass
from typing import Literal

from gateway.errors import LaminaError


@dataclass(eq=False)
class RecordError(LaminaError):
    """A request that the records do not allow; nothing was changed.

    Attributes:
        reason: not_found (no such tenant or key), conflict (taken, or disabled), invalid (a name or value is not
            allowed).
        message: one line for the operator; never holds a secret.
    """

    reason: Literal["not_found", "conflict", "invalid"]
    message: str

    def __str__(self) -> str:
        return self.message
