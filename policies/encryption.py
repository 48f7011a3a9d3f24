"""Encryption at rest: keys made of keys, and bytes that open only where they were meant to stand. Pure.

Every sealed value has a key of its own: HMAC-SHA256 of the data key over 16 random bytes, a PRF as in NIST SP
800-108. It is used once, with a random 96-bit nonce (AES-256-GCM, NIST SP 800-38D), so the bound of 2^32 values
under one key with random nonces is never met: two values share key and nonce only if 224 random bits are equal.

Layout of a sealed value: salt (16) | nonce (12) | ciphertext | tag (16).
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
FRESH_BYTES = 28
"""Random bytes that each sealed value takes: salt and nonce."""

OVERHEAD_BYTES = FRESH_BYTES + 16
MIN_MASTER_CHARS = 32
_SALT_BYTES = 16
_SHA256 = "sha256"


class UnsealError(ValueError):
    """Not sealed under this key and for this place, or changed since."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """What wraps data keys; made of a secret, which it does not hold.

    Attributes:
        key_id: names it without telling anything of it, 16 hexadecimal digits.
    """

    key_id: str
    wrapping: bytes = field(repr=False)
    files: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """The master key in use, and older ones that may still have to open what they wrapped."""

    current: MasterKey
    older: tuple[MasterKey, ...] = ()

    def find(self, key_id: str) -> MasterKey | None:
        """The key of this id, when it is among them."""
        return next((one for one in (self.current, *self.older) if one.key_id == key_id), None)


@dataclass(frozen=True, slots=True)
class DataKey:
    """A tenant's key, opened; `tag` is its id as sealed values carry it, 8 bytes."""

    key_id: str
    key: bytes = field(repr=False)

    @property
    def tag(self) -> bytes:
        """Its id in 8 bytes."""
        return tag_of(self.key_id)


def master_key(secret: str) -> MasterKey:
    """The master key of a secret of at least 32 characters of full entropy; nothing slows down a guess."""
    root = secret.encode()
    return MasterKey(
        hmac.digest(root, b"lamina/master-id", _SHA256)[:8].hex(),
        hmac.digest(root, b"lamina/master-wrapping", _SHA256),
        hmac.digest(root, b"lamina/master-files", _SHA256),
    )


def master_keys(text: str) -> MasterKeys:
    """The keys of a text with one secret per line or word: first the one in use, then older ones.

    Raises:
        ValueError: there is none, or one is too short.
    """
    secrets = text.split()
    if not secrets or any(len(secret) < MIN_MASTER_CHARS for secret in secrets):
        raise ValueError(f"a master key has at least {MIN_MASTER_CHARS} characters, one key per line")
    current, *older = (master_key(secret) for secret in secrets)
    return MasterKeys(current, tuple(older))


def tag_of(key_id: str) -> bytes:
    """A data key's id (`D` and 16 hexadecimal digits) in 8 bytes."""
    return bytes.fromhex(key_id[1:])


def id_of(tag: bytes) -> str:
    """The id behind a tag."""
    return "D" + tag.hex().upper()


def wrap(master: MasterKey, tenant_id: str, data_key: DataKey, fresh: bytes) -> bytes:
    """The data key as the database may hold it; it opens for this tenant and id alone."""
    place = context("data-key", tenant_id, data_key.key_id)
    return seal(master.wrapping, place, data_key.key, fresh)


def unwrap(master: MasterKey, tenant_id: str, key_id: str, wrapped: bytes) -> DataKey:
    """The data key.

    Raises:
        UnsealError: wrapped by another master key, for another tenant or id, or changed.
    """
    key = open_sealed(master.wrapping, context("data-key", tenant_id, key_id), wrapped)
    if len(key) != KEY_BYTES:
        raise UnsealError
    return DataKey(key_id, key)


def context(*parts: str | bytes) -> bytes:
    """Where a value stands, as associated data: parts with their lengths, so that no two places look alike."""
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in raw)


def seal(key: bytes, place: bytes, plain: bytes, fresh: bytes) -> bytes:
    """Encrypts a value for its place.

    Args:
        key: 32 bytes.
        place: see `context`.
        plain: the value.
        fresh: FRESH_BYTES from a random generator, never used before.
    """
    cipher = AESGCM(hmac.digest(key, fresh[:_SALT_BYTES], _SHA256))
    return fresh + cipher.encrypt(fresh[_SALT_BYTES:], plain, place)


def open_sealed(key: bytes, place: bytes, sealed: bytes) -> bytes:
    """The value.

    Raises:
        UnsealError: another key, another place, or a changed byte.
    """
    if len(sealed) < OVERHEAD_BYTES:
        raise UnsealError
    cipher = AESGCM(hmac.digest(key, sealed[:_SALT_BYTES], _SHA256))
    try:
        return cipher.decrypt(sealed[_SALT_BYTES:FRESH_BYTES], sealed[FRESH_BYTES:], place)
    except InvalidTag:
        raise UnsealError from None


SEALED_FIELD = b"\xc1E1"
"""How a sealed column begins; 0xC1 begins no MessagePack, and the length of a plain vector is a multiple of 4."""

_FIELD_HEAD = len(SEALED_FIELD) + 8


def seal_field(data_key: DataKey, place: bytes, plain: bytes, fresh: bytes) -> bytes:
    """A column's value, sealed, with the id of its key before it."""
    head = SEALED_FIELD + data_key.tag
    return head + seal(data_key.key, context(head, place), plain, fresh)


def field_key(stored: bytes) -> str | None:
    """Id of the key that a column's value is sealed under; None for one that is not sealed."""
    if not stored.startswith(SEALED_FIELD) or len(stored) < _FIELD_HEAD:
        return None
    return id_of(stored[len(SEALED_FIELD) : _FIELD_HEAD])


def open_field(data_key: DataKey, place: bytes, stored: bytes) -> bytes:
    """A column's value.

    Raises:
        UnsealError: as `open_sealed`.
    """
    if field_key(stored) != data_key.key_id:
        raise UnsealError
    return open_sealed(data_key.key, context(stored[:_FIELD_HEAD], place), stored[_FIELD_HEAD:])


def question_place(tenant_id: str, family: bytes, partition: bytes) -> bytes:
    """Where the question of a semantic row stands."""
    return context("question", tenant_id, family, partition)


def vector_place(tenant_id: str, row: int, models: str) -> bytes:
    """Where a vector of a semantic row stands."""
    return context("vector", tenant_id, str(row), models)


def chunk_key(master: MasterKey, salt: bytes) -> bytes:
    """The key of one file, of 16 random bytes that stand in it."""
    return hmac.digest(master.files, salt, hashlib.sha256)


def seal_chunk(file_key: bytes, number: int, plain: bytes) -> bytes:
    """A chunk of a file; its number is the nonce, so chunks cannot change places; a file key seals one file."""
    return AESGCM(file_key).encrypt(number.to_bytes(12, "big"), plain, None)


def open_chunk(file_key: bytes, number: int, sealed: bytes) -> bytes:
    """The chunk.

    Raises:
        UnsealError: as `open_sealed`.
    """
    try:
        return AESGCM(file_key).decrypt(number.to_bytes(12, "big"), sealed, None)
    except InvalidTag:
        raise UnsealError from None
