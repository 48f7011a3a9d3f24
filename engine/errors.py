"""Errors of the engine.

EngineError
├── ModelError    the model cannot be loaded; the process must not start
├── OutOfBlocks   the KV pool has too few free blocks; the scheduler asks first, so this is a bug when seen
└── RequestError  one request is answered with an OpenAI error object; nothing else is touched
"""

from dataclasses import dataclass


class EngineError(Exception):
    """Base of every error the engine raises on purpose."""


class ModelError(EngineError):
    """The model is missing, broken or of a kind this engine does not know."""


class OutOfBlocks(EngineError):  # noqa: N818  (a state, named as the field names it)
    """The KV pool has fewer free blocks than asked for."""


@dataclass(eq=False)
class RequestError(EngineError):
    """Becomes `{"error": {message, type, param, code}}` with this status.

    Attributes:
        retry_after_s: sent as Retry-After when not None.
        reason: for the operator's count of refusals, where the code does not tell them apart; never sent.
    """

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    kind: str = "invalid_request_error"
    retry_after_s: int | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return self.message
