"""Text to token ids and token ids to bytes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import tokenizers

_BYTE_TOKEN_LENGTH = len("<0x00>")


def byte_alphabet() -> dict[str, int]:
    """Map the printable characters of byte-level BPE to the bytes they stand for (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    spare = 256
    for byte in range(256):
        if byte not in printable:
            table[chr(spare)] = byte
            spare += 1
    return table


@dataclass(slots=True)
class Tokenizer:
    """A Hugging Face tokenizer that never adds special tokens and knows the bytes of each token.

    Attributes:
        backend: the tokenizer itself.
        byte_level: whether tokens are spelt in the byte-level alphabet; otherwise in SentencePiece's.
        specials: ids of control tokens; they have no text.
        bos_id: what a text begins with that no template has rendered; None where the model wants nothing there.
    """

    backend: tokenizers.Tokenizer
    byte_level: bool
    specials: frozenset[int]
    bos_id: int | None = None
    _alphabet: dict[str, int] = field(default_factory=byte_alphabet)
    _pieces: dict[int, bytes] = field(default_factory=dict)
    _longest: int = 0

    @property
    def vocab_size(self) -> int:
        """Number of token ids, added tokens included."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def longest_piece(self) -> int:
        """Return the bytes of the longest token: n tokens never spell more than n times as many."""
        if self._longest == 0:
            self._longest = max(len(self.label(token_id)) for token_id in range(self.vocab_size))
        return self._longest

    def encode(self, text: str) -> list[int]:
        """Turn text into ids; control tokens spelt in the text become their ids, none is added."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        """Turn text into ids as `encode` does, and say where each token ends, in characters of the text."""
        found = self.backend.encode(text, add_special_tokens=False)
        return found.ids, [end for _, end in found.offsets]

    def encode_whole(self, text: str) -> list[int]:
        """Turn a text that no template has rendered into ids; it begins with exactly one begin token, if any."""
        ids = self.encode(text)
        return ids if self.bos_id is None or ids[:1] == [self.bos_id] else [self.bos_id, *ids]

    def piece(self, token_id: int) -> bytes:
        """Return the bytes a token adds to the output; empty for control tokens and ids of no token.

        Side effects: remembers them, so callers check ids that come from outside.
        """
        known = self._pieces.get(token_id)
        if known is None:
            known = b"" if token_id in self.specials else self._spell(self.backend.id_to_token(token_id) or "")
            self._pieces[token_id] = known
        return known

    def label(self, token_id: int) -> bytes:
        """Return the bytes that name a token in log-probabilities; control tokens show their own name."""
        return self.piece(token_id) or (self.backend.id_to_token(token_id) or "").encode()

    def decode(self, token_ids: Iterable[int]) -> str:
        """Return the text of whole answers: what streaming the same ids adds up to."""
        return b"".join(map(self.piece, token_ids)).decode("utf-8", errors="replace")

    def _spell(self, token: str) -> bytes:
        if self.byte_level:
            if all(character in self._alphabet for character in token):
                return bytes(self._alphabet[character] for character in token)
            return token.encode()
        if len(token) == _BYTE_TOKEN_LENGTH and token.startswith("<0x") and token.endswith(">"):
            return bytes.fromhex(token[3:5])
        return token.replace("\u2581", " ").encode()
