"""Why a log cannot be replayed."""

from gateway.errors import LaminaError


class ReplayError(LaminaError):
    """The log or the wishes about it make no sense; one line that quotes no text of the log."""
