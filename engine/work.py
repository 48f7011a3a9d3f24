"""One step as the scheduler hands it to a runner."""

from dataclasses import dataclass, field

from engine.kv.contract import Transfers
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Work:
    """Tokens [start, start + count) of one sequence, to be computed in this step.

    Attributes:
        write_from: keys and values are stored from this position on; those before it are in shared blocks already.
    """

    sequence: Sequence
    start: int
    count: int
    write_from: int

    @property
    def samples(self) -> bool:
        """Whether the step ends at the last known token, so that the next one is chosen."""
        return self.start + self.count == self.sequence.num_tokens


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. Empty `work` means there is nothing to do."""

    work: tuple[Work, ...]
    admitted: tuple[Sequence, ...] = ()
    preempted: tuple[Sequence, ...] = ()
    transfers: Transfers = field(default_factory=Transfers)
