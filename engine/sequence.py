"""One answer in the making: the only mutable object that travels through the engine."""

import sys
from dataclasses import dataclass, field
from enum import Enum

from engine.detokenizer import OutputText
from engine.grammar.contract import Grammar
from engine.kv.wishes import CacheWishes, PrefixOutcome
from engine.prompt_use import PromptUse
from engine.sampling import SamplingParams


class Status(Enum):
    """Where a sequence stands.

    FOLLOWING is one of a request's `n` answers that waits for the first of them to compute their prompt.
    """

    WAITING = "waiting"
    FOLLOWING = "following"
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
        cache: tenant, breakpoints and whether cached tokens may be used.
        priority: lower runs sooner.
        grammar: how far the answer has come in the grammar it must follow; None for free text.
        siblings: answers of the same request that follow this one until its prompt is computed.
        leader: whom it follows; None when it follows nobody.
        num_computed: tokens whose keys and values are in the KV pool.
        write_from: first position whose keys and values may be stored; those before it lie in shared blocks.
        tables: a block table per KV group, blocks in token order; empty unless running.
        prefix: what the first look-up of the prompt found; None before it.
        hit_unit: a cached prefix counts in whole multiples of so many tokens; 1 for any number.
        cache_upto: no block with a token at or behind this position may be cached for others.
        covered: tokens the tables are known to hold in blocks that may be written.
        swapped: whether its blocks were handed to the host when it was preempted.
        arrival_s, admitted_s, first_token_s: monotonic clock.
        denied_free: free blocks when it last found no room; -1 when it never did.
        num_skipped: admissions of others that went past it since it first found no room.
    """

    seq_id: int
    sample_index: int
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    seed: int
    output: OutputText
    arrival_s: float
    cache: CacheWishes = field(default_factory=CacheWishes)
    priority: int = 0
    grammar: Grammar | None = None
    siblings: list["Sequence"] = field(default_factory=list)
    leader: "Sequence | None" = None
    output_ids: list[int] = field(default_factory=list)
    num_computed: int = 0
    write_from: int = 0
    tables: list[list[int]] = field(default_factory=list)
    prefix: PrefixOutcome | None = None
    hit_unit: int = 1
    cache_upto: int = sys.maxsize
    covered: int = 0
    swapped: bool = False
    status: Status = Status.WAITING
    admitted_s: float | None = None
    first_token_s: float | None = None
    num_preemptions: int = 0
    denied_free: int = -1
    num_skipped: int = 0

    @property
    def tenant(self) -> str:
        """Whose it is; fairness and sharing follow it."""
        return self.cache.salt

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens."""
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def num_uncomputed(self) -> int:
        """Tokens still to be run through the model; 1 for a sequence that is decoding."""
        return self.num_tokens - self.num_computed

    def prompt_use(self, block_size: int) -> PromptUse:
        """What became of the prompt in the cache, once it is computed: whole blocks of it are there for others."""
        if self.prefix is None:
            return PromptUse()
        whole = min(len(self.prompt_ids), self.cache_upto) // block_size * block_size
        hit = self.prefix.hit_tokens
        host = min(hit, self.prefix.hits_by_tier.get("host", 0))
        miss = self.prefix.told_miss, self.prefix.differs_at
        return PromptUse(hit, max(0, whole - hit), *miss, self.hit_unit, host)

    def tokens(self, start: int, stop: int) -> list[int]:
        """Return the token ids at positions [start, stop)."""
        prompt = len(self.prompt_ids)
        if start >= prompt:
            return self.output_ids[start - prompt : stop - prompt]
        return [*self.prompt_ids[start:stop], *self.output_ids[: max(0, stop - prompt)]]
