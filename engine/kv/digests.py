"""What names a block of keys and values: a chain of digests from the model's identity to the last token.

Every field is framed by a type and a length, so that no two sets of fields share an encoding; token ids are four
bytes, little-endian. The same tokens after the same prefix, in the same model, for the same tenant have the same
digest in every process and in every tier.
"""

import struct
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, fields
from hashlib import blake2b

from engine.kv.contract import KvGroup

DIGEST_BYTES = 32
TOKEN_BYTES = 4
ENGINE_FORMAT = 1
"""Raise it when the layout or the meaning of stored keys and values changes."""

_ROOT, _CACHE, _TENANT = b"lamina root", b"lamina kv cache", b"lamina tenant"
_PARENT_LENGTH = struct.pack("<I", DIGEST_BYTES)
_BLOCK = blake2b(_PARENT_LENGTH, digest_size=DIGEST_BYTES, person=b"lamina block")
_TAIL = blake2b(_PARENT_LENGTH, digest_size=DIGEST_BYTES, person=b"lamina tail")
"""Digests begun once and copied per block, which costs half of starting anew."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """All that decides which keys and values a token gets; each field may be a name or a fingerprint.

    Attributes:
        rope: the rotary settings, where they are not part of `model`.
        adapter: digest of the adapter's content, empty for none.
        kv_dtype: type and scale scheme of stored keys and values.
    """

    model: str
    weights: str
    tokenizer: str
    chat_template: str
    kv_dtype: str
    quantisation: str = ""
    rope: str = ""
    adapter: str = ""

    def root(self) -> bytes:
        """Return the digest that every chain of this model starts from."""
        named = [(field.name, str(getattr(self, field.name)).encode()) for field in fields(self)]
        return framed_digest(_ROOT, [("engine_format", struct.pack("<I", ENGINE_FORMAT)), *named])


def framed_digest(kind: bytes, named: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the digest of named fields; another name, order or border between them gives another digest."""
    digest = blake2b(digest_size=DIGEST_BYTES, person=kind)
    for name, value in named:
        key = name.encode()
        digest.update(struct.pack("<IQ", len(key), len(value)) + key + value)
    return digest.digest()


def cache_root(root: bytes, groups: tuple[KvGroup, ...], block_size: int) -> bytes:
    """Add how the cache cuts layers and tokens to the model's identity."""
    spec = [(f"group {at}", repr((group.layers, group.window)).encode()) for at, group in enumerate(groups)]
    return framed_digest(_CACHE, [("root", root), ("block_size", struct.pack("<I", block_size)), *spec])


def tenant_root(root: bytes, salt: str) -> bytes:
    """Return the start of a tenant's chains; no other tenant's chain meets them."""
    return framed_digest(_TENANT, [("root", root), ("salt", salt.encode("utf-8", "surrogatepass"))])


def pack_tokens(token_ids: Iterable[int]) -> bytes:
    """Return token ids as little-endian 32-bit integers.

    Raises:
        OverflowError: an id is negative or needs more than 32 bits.
    """
    packed = array("I", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def block_digest(parent: bytes, tokens: bytes) -> bytes:
    """Return the digest of a full block of packed tokens behind `parent`."""
    digest = _BLOCK.copy()
    digest.update(parent + struct.pack("<I", len(tokens)) + tokens)
    return digest.digest()


def tail_digest(parent: bytes, tokens: bytes) -> bytes:
    """Return the digest of an open block; never that of a full one, whatever it holds."""
    digest = _TAIL.copy()
    digest.update(parent + struct.pack("<I", len(tokens)) + tokens)
    return digest.digest()
