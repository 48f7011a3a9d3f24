"""Why a set does not start."""

from gateway.errors import LaminaError


class StartError(LaminaError):
    """Nothing was started; the message is one line for the operator."""
