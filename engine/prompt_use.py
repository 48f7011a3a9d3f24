"""What became of a prompt in the KV cache."""

from dataclasses import dataclass

from engine.kv.wishes import Miss


@dataclass(frozen=True, slots=True)
class PromptUse:
    """What a client may know of it.

    Attributes:
        cached: tokens whose keys and values were there.
        written: tokens that were computed and are now there for others.
        miss: why the tokens behind the cached ones were not there; None when less than a block was missing.
        missed_at: index of the first token that differs from what is cached, when `miss` is "differs".
        unit: cached tokens count in whole multiples of so many.
        host: of the cached tokens, those that were in the host's memory, not on the device.
    """

    cached: int = 0
    written: int = 0
    miss: Miss | None = None
    missed_at: int | None = None
    unit: int = 1
    host: int = 0
