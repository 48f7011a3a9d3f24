"""One answer in the making: the only mutable object that travels through the engine."""

from dataclasses import dataclass, field
from enum import Enum

from engine.detokenizer import OutputText
from engine.sampling import SamplingParams


class Status(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """A prompt and what has been generated for it.

    Attributes:
        seq_id: unique in the process, ascending by arrival.
        sample_index: which of a request's `n` answers this is.
        seed: key of its random stream, drawn when the request names none.
        output: text side: bytes to characters, stop strings, hold-back.
        num_computed: tokens whose keys and values are in the KV pool.
        tables: a block table per KV group, blocks in token order; empty unless running.
        arrival_s, admitted_s, first_token_s: monotonic clock.
    """

    seq_id: int
    sample_index: int
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    seed: int
    output: OutputText
    arrival_s: float
    output_ids: list[int] = field(default_factory=list)
    num_computed: int = 0
    tables: list[list[int]] = field(default_factory=list)
    status: Status = Status.WAITING
    admitted_s: float | None = None
    first_token_s: float | None = None
    num_preemptions: int = 0

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens."""
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def num_uncomputed(self) -> int:
        """Tokens still to be run through the model; 1 for a sequence that is decoding."""
        return self.num_tokens - self.num_computed

    def tokens(self, start: int, stop: int) -> list[int]:
        """Return the token ids at positions [start, stop)."""
        prompt = len(self.prompt_ids)
        if start >= prompt:
            return self.output_ids[start - prompt : stop - prompt]
        return [*self.prompt_ids[start:stop], *self.output_ids[: max(0, stop - prompt)]]
