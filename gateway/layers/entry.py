"""The stored value: what an entry holds, sealed so that a swapped or tampered value is a miss, never an answer.

Layout: magic (3) | flags (1) | HMAC-SHA256 (32) | MessagePack, zstd when that is smaller. The MAC covers flags,
key digest and payload, under a key derived per tenant from the master secret.

Encrypted: magic (3) | flags (1) | data key's tag (8) | size once unpacked (4) | what policies.encryption makes of
the payload, for this head, tenant and key digest.
"""

import hashlib
import hmac
from typing import Any

import msgspec
import zstandard

from gateway.clock import Clock
from gateway.layers.keyring import Keyring, fresh_bytes
from policies.encryption import (
    SEALED_FIELD,
    DataKey,
    UnsealError,
    context,
    open_field,
    open_sealed,
    seal,
    seal_field,
)
from policies.purge_scopes import Made, person
from policies.types import ChatResponse, Choice

MAGIC = b"LM1"
_MAX_KEYS = 10_000
_PLAIN, _ZSTD, _ENCRYPTED, _ENCRYPTED_ZSTD = b"\x00", b"\x01", b"\x02", b"\x03"
_PACKED = (_ZSTD, _ENCRYPTED_ZSTD)
_COMPRESS_FROM_BYTES = 1024
_MAX_PLAIN_BYTES = 64 << 20
_HEAD = len(MAGIC) + 1 + 32
_TAG, _SEALED_HEAD = len(MAGIC) + 1, len(MAGIC) + 1 + 8 + 4

StoredChoice = tuple[int, dict[str, Any], str | None, dict[str, Any] | None, tuple[int, ...], dict[str, Any]]
"""index, message, finish_reason, logprobs, pieces, extra."""

StoredAnswer = tuple[str, int, str, dict[str, Any] | None, dict[str, Any]]
"""id, created, model, usage, extra."""


class EntryError(ValueError):
    """The bytes are not an entry of this key and tenant; `reason` is a metric label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One stored answer.

    Attributes:
        key: the key's digest, checked on read.
        tenant_id: checked on read.
        created_s: seconds since the epoch when the answer was whole.
        ttl_s: life from then.
        as_of: the tenant's purge sequence before the model was called.
        models: the names that a purge may use for its model.
        user: the user when the entry is scoped to one, else empty.
        tags, versions: what purges can name.
        answer: as StoredAnswer says.
        choices: one tuple each, as StoredChoice says.
        request_id: of the request that made it.
        policy: version of the guards that let it be stored; empty when none did.
        took_s: how long the model took.
        about: of a semantic row, digest of the place and question that it answers; else empty.
        source: of a copy of a semantic row, digest of the row's own key, so that a purge of it kills the copy.
        parts: of a semantic row, short digests of what its request was made of, to explain misses by.
        whose: digests of the users and sessions that it was made for, whatever its scope; empty in older entries.
        route: name of the route; empty in older entries.
        prints: digests of the instructions and tools of its request; empty in older entries.
        boot, marked_s: when it was made, as workers of one machine read it, see gateway.clock; `created_s` of an
            opened entry comes from there where it can.
    """

    key: bytes
    tenant_id: str
    created_s: float
    ttl_s: float
    as_of: int
    models: tuple[str, ...]
    user: str
    tags: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    answer: StoredAnswer
    choices: tuple[StoredChoice, ...]
    request_id: str
    policy: str = ""
    took_s: float = 0.0
    about: bytes = b""
    source: bytes = b""
    parts: dict[str, bytes] = {}
    whose: tuple[bytes, ...] = ()
    route: str = ""
    prints: tuple[bytes, ...] = ()
    boot: bytes = b""
    marked_s: float = 0.0

    def made(self) -> Made:
        """What a purge can name of it."""
        whose = self.whose or ((person("user", self.user),) if self.user else ())
        source = self.source.hex()
        named = (self.models, whose, self.tags, self.versions, source, self.route, self.created_s, self.prints)
        return Made(self.key.hex(), *named)

    def response(self) -> ChatResponse:
        """The answer in neutral form."""
        id_, created, model, usage, extra = self.answer
        return ChatResponse(id_, created, model, tuple(Choice(*choice) for choice in self.choices), usage, extra)


def answer_of(response: ChatResponse) -> StoredAnswer:
    """The `answer` field of a response.

    Its usage is kept as reported, tokens read from and written to a prompt cache included, for clients size their
    context by it; why tokens had to be computed then says nothing of a replay, and is left out.
    """
    return response.id, response.created, response.model, _lasting(response.usage), dict(response.extra)


def _lasting(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    details = (usage or {}).get("prompt_tokens_details")
    if usage is None or not isinstance(details, dict) or "miss" not in details:
        return usage
    return {**usage, "prompt_tokens_details": {name: value for name, value in details.items() if name != "miss"}}


def choices_of(response: ChatResponse) -> tuple[StoredChoice, ...]:
    """The `choices` field of a response."""
    return tuple(
        (choice.index, choice.message, choice.finish_reason, choice.logprobs, choice.pieces, dict(choice.extra))
        for choice in response.choices
    )


class Sealer:
    """Seals and opens entries: encrypted where there is a keyring, else authenticated only.

    Keys of the authentication are derived from the master secret per tenant and kept.

    Args:
        secret: the master secret.
        keyring: data keys by tenant; None where nothing is encrypted.
        clock: this worker's; None believes what entries say of the time.
        read_plain: whether what was sealed before encryption was switched on still opens.
    """

    def __init__(
        self,
        secret: bytes,
        keyring: Keyring | None = None,
        clock: Clock | None = None,
        *,
        read_plain: bool = True,
    ) -> None:
        self._secret = secret
        self._clock = clock
        self._keyring = keyring
        self._read_plain = read_plain or keyring is None
        self._keys: dict[tuple[str, str], bytes] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Entry)
        self._compressor = zstandard.ZstdCompressor(level=3)
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def generation(self) -> int:
        """Another number once a key is gone: what was opened before may not be remembered then."""
        return 0 if self._keyring is None else self._keyring.generation

    def seal(self, entry: Entry) -> bytes:
        """The bytes to store.

        Raises:
            EntryError: no_key: the tenant has no data key now, so nothing of it may be stored.
        """
        clock = self._clock
        if clock is not None:
            entry = msgspec.structs.replace(entry, boot=clock.boot, marked_s=clock.mark(entry.created_s))
        payload = self._encoder.encode(entry)
        size, zstd = len(payload), False
        if size >= _COMPRESS_FROM_BYTES:
            packed = self._compressor.compress(payload)
            if len(packed) < size:
                payload, zstd = packed, True
        if self._keyring is None:
            flags = _ZSTD if zstd else _PLAIN
            return MAGIC + flags + self._mac(entry.tenant_id, entry.key, flags, payload) + payload
        data_key = self._current(self._keyring, entry.tenant_id)
        flags = _ENCRYPTED_ZSTD if zstd else _ENCRYPTED
        head = MAGIC + flags + data_key.tag + size.to_bytes(4, "big")
        return head + seal(data_key.key, context(head, entry.tenant_id, entry.key), payload, fresh_bytes())

    def open(self, stored: bytes, tenant_id: str, key: bytes) -> Entry:
        """The entry in `stored`, proven to be of this tenant and key.

        Raises:
            EntryError: foreign format, bad MAC or tag, unknown data key, swapped key or tenant, or not decodable.
        """
        if len(stored) < _HEAD or stored[:3] != MAGIC:
            raise EntryError("format")
        flags = stored[3:4]
        if flags in (_ENCRYPTED, _ENCRYPTED_ZSTD):
            payload = self._decrypted(stored, tenant_id, key)
        else:
            payload = self._authentic(stored, tenant_id, key)
        try:
            entry = self._decoder.decode(self._unpacked(payload) if flags in _PACKED else payload)
        except (msgspec.MsgspecError, zstandard.ZstdError, RecursionError):
            raise EntryError("decode") from None
        if entry.key != key or entry.tenant_id != tenant_id:
            raise EntryError("swapped")
        clock = self._clock
        if clock is None or entry.boot != clock.boot:
            return entry
        created_s = clock.read(entry.boot, entry.marked_s, entry.created_s)
        return msgspec.structs.replace(entry, created_s=created_s)

    def seal_field(self, tenant_id: str, place: bytes, plain: bytes) -> bytes:
        """A column of a row, encrypted for its place where there is a keyring, else as it is.

        Raises:
            EntryError: no_key, as `seal`.
        """
        if self._keyring is None:
            return plain
        return seal_field(self._current(self._keyring, tenant_id), place, plain, fresh_bytes())

    def open_field(self, tenant_id: str, place: bytes, stored: bytes) -> bytes:
        """What `seal_field` sealed; a column that is not sealed, as it is.

        Raises:
            EntryError: no_key, or decrypt.
        """
        if not stored.startswith(SEALED_FIELD):
            return stored
        keys = {} if self._keyring is None else self._keyring.of(tenant_id).by_tag
        data_key = keys.get(stored[len(SEALED_FIELD) : len(SEALED_FIELD) + 8])
        if data_key is None:
            raise EntryError("no_key")
        try:
            return open_field(data_key, place, stored)
        except UnsealError:
            raise EntryError("decrypt") from None

    def asked(self, tenant_id: str, text: str) -> bytes:
        """A digest of what was asked; nobody without the master secret can try texts against an encrypted one."""
        if self._keyring is None:
            return hashlib.sha256(text.encode()).digest()
        return hmac.digest(self._kept("asked", tenant_id), text.encode(), hashlib.sha256)

    def _current(self, keyring: Keyring, tenant_id: str) -> DataKey:
        data_key = keyring.of(tenant_id).current
        if data_key is None:
            raise EntryError("no_key")
        return data_key

    def _decrypted(self, stored: bytes, tenant_id: str, key: bytes) -> bytes:
        keys = {} if self._keyring is None else self._keyring.of(tenant_id).by_tag
        data_key = keys.get(stored[_TAG : _TAG + 8])
        if data_key is None:
            raise EntryError("no_key")
        try:
            place = context(stored[:_SEALED_HEAD], tenant_id, key)
            return open_sealed(data_key.key, place, stored[_SEALED_HEAD:])
        except UnsealError:
            raise EntryError("decrypt") from None

    def _authentic(self, stored: bytes, tenant_id: str, key: bytes) -> bytes:
        flags, mac, payload = stored[3:4], stored[4:_HEAD], stored[_HEAD:]
        if not hmac.compare_digest(mac, self._mac(tenant_id, key, flags, payload)):
            raise EntryError("mac")
        if not self._read_plain:
            raise EntryError("plain")
        return payload

    def _unpacked(self, payload: bytes) -> bytes:
        if (
            zstandard.frame_content_size(payload) > _MAX_PLAIN_BYTES
        ):  # a frame that says its size ignores the limit
            raise EntryError("size")
        return self._decompressor.decompress(payload, max_output_size=_MAX_PLAIN_BYTES)

    def _mac(self, tenant_id: str, key: bytes, flags: bytes, payload: bytes) -> bytes:
        return hmac.digest(self._kept("entry", tenant_id), flags + key + payload, hashlib.sha256)

    def _kept(self, purpose: str, tenant_id: str) -> bytes:
        name = (purpose, tenant_id)
        found = self._keys.get(name)
        if found is None:
            if len(self._keys) >= _MAX_KEYS:
                self._keys.clear()
            found = self._keys[name] = derive(self._secret, purpose, tenant_id)
        return found


def plain_bytes(stored: bytes) -> int:
    """Size of an authentic entry once it is unpacked; 812 bytes may hold 2.5 MB of repeated text."""
    if stored[3:4] in (_ENCRYPTED, _ENCRYPTED_ZSTD):
        return int.from_bytes(stored[_TAG + 8 : _SEALED_HEAD], "big")
    payload = stored[_HEAD:]
    return zstandard.frame_content_size(payload) if stored[3:4] == _ZSTD else len(payload)


def derive(secret: bytes, purpose: str, tenant_id: str) -> bytes:
    """A 32-byte key for one purpose and tenant (HMAC as a PRF; purposes never share a key)."""
    return hmac.digest(secret, f"lamina/{purpose}/{len(tenant_id)}:{tenant_id}".encode(), hashlib.sha256)
