"""Where a prompt may be cut into chunks, and what that means for the cache.

A runner whose numbers do not depend on the cut (`any_chunks`) takes pieces of any size, and any cached token is as
good as one computed now. A runner whose kernels add in another order for another number of rows gives the same
numbers only for the same pieces. For it, prompts are cut at multiples of one chunk whatever else runs; a cached
prefix counts in whole chunks, since a cold run would have computed whole chunks; and nothing is cached that was
computed in other pieces: no token of an answer, no short last chunk, nothing behind them. So cached equals cold
and alone equals batched, bit for bit, with either runner on a CPU. Test: tests/engine/test_cached_equals_cold.py.

The third case is a runner whose numbers depend on all rows of a step, as cuBLAS' do on a GPU. No way to cut a
prompt gives it equal bits, so it takes pieces of any size, and its logits differ in their last bits.
"""

import math
from dataclasses import dataclass

from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Cuts:
    """How prompts are cut.

    Attributes:
        chunk_tokens: the fixed chunk; None when a prompt may be cut anywhere.
        helping: tokens of one sequence that are planned at a time where it may be cut anywhere.
        block_size: tokens in a KV block.
    """

    chunk_tokens: int | None
    helping: int
    block_size: int

    def begin(self, sequence: Sequence) -> None:
        """Tell the cache what it may use and keep of a new sequence."""
        if self.chunk_tokens is not None:
            sequence.hit_unit = math.lcm(self.chunk_tokens, self.block_size)
            sequence.cache_upto = 0

    def started(self, sequence: Sequence) -> None:
        """Note that a sequence starts, from a cached prefix in whole chunks or from what was swapped out."""
        if self.chunk_tokens is not None:
            trusted = sequence.cache_upto if sequence.swapped else sequence.num_computed
            sequence.cache_upto = min(trusted, sequence.num_computed)

    def computed(self, sequence: Sequence, start: int, count: int) -> None:
        """Note which piece of a sequence was computed; call it before the cache is told."""
        if count == self.chunk_tokens and start == sequence.cache_upto:
            sequence.cache_upto = start + count

    def next_count(self, sequence: Sequence, start: int) -> int:
        """Count the tokens of the next piece of a sequence that is computed up to `start`."""
        left = sequence.num_tokens - start
        if self.chunk_tokens is None:
            return min(left, self.helping)
        return min(left, self.chunk_tokens - start % self.chunk_tokens)
