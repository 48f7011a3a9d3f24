"""What a sequence tells the outside while it grows."""

from dataclasses import dataclass
from enum import Enum

from engine.errors import RequestError
from engine.prompt_use import PromptUse
from engine.sampler import Sampled


class FinishReason(Enum):
    """Why an answer ended; `stop` and `length` are OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """News of one sequence.

    Attributes:
        seq_id: which sequence.
        sample_index: which of its request's answers.
        text: new text, stop strings cut; may be empty.
        tokens: the tokens chosen since the last event, with log-probabilities where asked for; the end token is
            left out, as it has no text.
        num_output: tokens generated so far, the end token included.
        prompt: set on the first event of a sequence.
        finish: set on the last event of a sequence.
        error: set with `FinishReason.ERROR`.
    """

    seq_id: int
    sample_index: int
    text: str = ""
    tokens: tuple[Sampled, ...] = ()
    num_output: int = 0
    prompt: PromptUse | None = None
    finish: FinishReason | None = None
    error: RequestError | None = None
