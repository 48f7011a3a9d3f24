"""What the semantic service raises on purpose."""


class SemanticError(Exception):
    """Anything the service raises on purpose; the message is for the operator."""


class ModelError(SemanticError):
    """A model cannot be loaded, or computes nonsense."""


class ConfigError(SemanticError):
    """An option cannot be used."""


class RequestError(SemanticError):
    """A request is answered with an error.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BusyError(SemanticError):
    """Too much waits already; the caller goes on without us."""


class StoreError(SemanticError):
    """The database does not answer, or holds what we cannot read."""
