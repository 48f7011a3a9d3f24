"""What a request is told that can never run here."""

from engine.errors import RequestError


def context_overflow(prompt: int, wanted: int, limit: int) -> RequestError:
    """Build the 400 for a prompt and answer that exceed the context."""
    return RequestError(
        400,
        f"This model's maximum context length is {limit} tokens. However, you requested {prompt + wanted} tokens "
        f"({prompt} in the messages, {wanted} in the completion). Please reduce the length of the messages or "
        "completion.",
        code="context_length_exceeded",
        param="messages",
    )
