"""What a request is told that can never run here."""

from engine.errors import RequestError
from engine.sequence import Sequence


def check_fits(sequence: Sequence, max_tokens: int) -> None:
    """Refuse what could not run even alone.

    Args:
        sequence: new.
        max_tokens: most prompt and answer tokens of one sequence.

    Raises:
        RequestError: 400.
    """
    prompt, wanted = len(sequence.prompt_ids), sequence.params.max_tokens
    if prompt == 0:
        raise RequestError(400, "The prompt is empty.", param="messages")
    if prompt + wanted > max_tokens:
        raise context_overflow(prompt, wanted, max_tokens)


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
