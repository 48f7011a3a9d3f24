"""The tokens of one sequence in blocks, and the digests that name them; each is computed once."""

from collections.abc import Callable

from engine.kv.contract import Holder
from engine.kv.digests import TOKEN_BYTES, block_digest, pack_tokens


class Chain:
    """Packed tokens and block digests of a sequence from the tenant's root on.

    Valid while the tokens already covered stay as they are, which holds for a prompt and what was generated.
    """

    __slots__ = ("_digest", "_digests", "_packed", "block_bytes", "root")

    def __init__(
        self, root: bytes, block_size: int, digest: Callable[[bytes, bytes], bytes] = block_digest
    ) -> None:
        self.root = root
        self.block_bytes = block_size * TOKEN_BYTES
        self._digest = digest
        self._packed = bytearray()
        self._digests: list[bytes] = []

    def cover(self, sequence: Holder, num_tokens: int) -> None:
        """Make sure that the first `num_tokens` tokens are packed."""
        have = len(self._packed) // TOKEN_BYTES
        if have >= num_tokens:
            return
        prompt = len(sequence.prompt_ids)
        if have < prompt:
            self._packed += pack_tokens(sequence.prompt_ids[have:] if have else sequence.prompt_ids)
            have = prompt
        if have < num_tokens:
            self._packed += pack_tokens(sequence.output_ids[have - prompt : num_tokens - prompt])

    def parent(self, index: int) -> bytes:
        """Return the digest that block `index` hangs from."""
        return self.digest(index - 1) if index else self.root

    def digest(self, index: int) -> bytes:
        """Return the digest of full block `index`, which must be covered."""
        digests = self._digests
        while len(digests) <= index:
            at = len(digests)
            digests.append(self._digest(digests[-1] if at else self.root, self.tokens(at)))
        return digests[index]

    def tokens(self, index: int) -> bytes:
        """Return the packed tokens of full block `index`."""
        start = index * self.block_bytes
        return bytes(self._packed[start : start + self.block_bytes])

    def span(self, start: int, stop: int) -> bytes:
        """Return the packed tokens at positions [start, stop)."""
        return bytes(self._packed[start * TOKEN_BYTES : stop * TOKEN_BYTES])

    def fork(self, blocks: int) -> "Chain":
        """Return a chain that shares the first blocks' digests, and covers nothing yet beyond them."""
        twin = Chain(self.root, self.block_bytes // TOKEN_BYTES, self._digest)
        twin._digests = self._digests[:blocks]
        twin._packed = self._packed[: len(twin._digests) * self.block_bytes]
        return twin
