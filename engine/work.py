"""One step as the scheduler hands it to a runner."""

from dataclasses import dataclass, field

from engine.kv.contract import Transfers
from engine.sequence import Sequence


@dataclass(slots=True)
class Work:
    """Tokens [start, start + count) of one sequence, to be computed in this step.

    Never changed once it is made; not frozen, as a step makes hundreds and frozen ones cost ten times as much.

    Attributes:
        write_from: keys and values are stored from this position on; those before it are in shared blocks already.
    """

    sequence: Sequence
    start: int
    count: int
    write_from: int

    @property
    def samples(self) -> bool:
        """Whether the next token is chosen: the step ends at the last known token, and an answer is wanted."""
        sequence = self.sequence
        known = len(sequence.prompt_ids) + len(sequence.output_ids)
        return self.start + self.count == known and sequence.params.max_tokens > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. Empty `work` means there is nothing to do.

    Attributes:
        decoding: how many of the items, the first ones, compute the one token that was sampled last.
        admitted: sequences that began to run, again or for the first time.
        preempted: sequences that gave their blocks back.
        transfers: what moves between blocks first.
    """

    work: tuple[Work, ...]
    decoding: int = 0
    admitted: tuple[Sequence, ...] = ()
    preempted: tuple[Sequence, ...] = ()
    transfers: Transfers = field(default_factory=Transfers)

    @property
    def prefill_tokens(self) -> int:
        """Tokens computed besides those that decode."""
        return sum(item.count for item in self.work[self.decoding :])
