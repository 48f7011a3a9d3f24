"""Idempotency keys: a change that is asked for again under the same key is told again, and made once.

The answer is kept in the database for a day, encrypted under a key that the caller's idempotency key is part of,
because it may hold a secret that is shown once. Source: draft-ietf-httpapi-idempotency-key-header.
"""

import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.db.once import OnceName, OnceRepository, OnceRow
from gateway.errors import ApiError, DatabaseUnavailable
from gateway.telemetry.metrics import Metrics

MAX_KEY_CHARS = 255
IN_FLIGHT_S = 60.0
"""A change takes milliseconds; one that is open for longer was cut short."""

_NONCE_BYTES = 12
_FORMAT = b"2"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Told:
    """An answer in one piece; `fields` are the header fields that belong to what it says."""

    status: int
    body: bytes
    fields: Mapping[str, str] = field(default_factory=dict)
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A change that is asked for.

    Attributes:
        actor: who asks; keys of different callers never meet.
        key: the caller's own.
        digest: of method, path, query and body.
        repeatable: whether making the change twice does no more than making it once.
    """

    actor: str
    key: str
    digest: bytes
    repeatable: bool


class Once:
    """Makes each change once.

    Args:
        kept: where keys and answers are.
        secret: the set's master secret.
        metrics: told of answers that could not be kept.
        now_s: seconds since the epoch.
    """

    def __init__(self, kept: OnceRepository, secret: bytes, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._kept = kept
        self._secret = secret
        self._metrics = metrics
        self._now_s = now_s

    async def run(self, asked: Asked, change: Callable[[], Awaitable[Told]]) -> Told:
        """Makes the change, or tells what came of it before.

        An answer below 400 is kept; after any other one below 500 nothing was changed and the key is free again.
        What came of a change that broke off is not known: a repeatable one may be made again, another may not.

        Raises:
            ApiError: 400 the key cannot be one; 409 the change is under way, was cut short, or its answer cannot
                be read any more; 422 the key was used for something else.
            DatabaseUnavailable: nothing was changed.
        """
        name = self._name(asked)
        for _ in range(_TRIES):
            row = await self._kept.claim(name, asked.digest, self._now_s())
            if row is None:
                return await self._make(name, asked, change)
            if row.status is None and asked.repeatable and self._now_s() - row.at > IN_FLIGHT_S:
                await self._kept.release(name, row.at)
                continue
            return self._again(asked, row)
        raise _under_way()

    async def _make(self, name: OnceName, asked: Asked, change: Callable[[], Awaitable[Told]]) -> Told:
        try:
            told = await change()
        except Exception:
            if asked.repeatable:
                await self._free(name)
            raise
        if told.status < 400:  # noqa: PLR2004  (HTTP: errors begin here)
            await self._keep(name, asked, told)
        elif told.status < 500 or asked.repeatable:  # noqa: PLR2004
            await self._free(name)
        return told

    async def _keep(self, name: OnceName, asked: Asked, told: Told) -> None:
        nonce = os.urandom(_NONCE_BYTES)
        kept = orjson.dumps(dict(told.fields)) + b"\n" + told.body
        sealed = nonce + AESGCM(self._cipher_key(asked)).encrypt(nonce, kept, _FORMAT + asked.digest)
        try:
            await self._kept.finish(name, told.status, sealed)
        except DatabaseUnavailable:  # the change is made: that is what the caller must be told
            self._metrics.fault("admin", "answer_not_kept")

    async def _free(self, name: OnceName) -> None:
        try:
            await self._kept.release(name, None)
        except DatabaseUnavailable:
            self._metrics.fault("admin", "key_not_freed")

    def _again(self, asked: Asked, row: OnceRow) -> Told:
        if not hmac.compare_digest(row.request, asked.digest):
            raise _reused()
        if row.status is None:
            raise _under_way() if self._now_s() - row.at <= IN_FLIGHT_S else _cut_short()
        sealed = row.sealed
        try:
            cipher = AESGCM(self._cipher_key(asked))
            kept = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _FORMAT + row.request)
            fields, _, body = kept.partition(b"\n")
            return Told(row.status, body, orjson.loads(fields), replayed=True)
        except (InvalidTag, ValueError):
            raise _unreadable() from None

    def _name(self, asked: Asked) -> OnceName:
        key = asked.key
        if not 0 < len(key) <= MAX_KEY_CHARS or not all("!" <= char <= "~" for char in key):
            problem = f"An Idempotency-Key is 1 to {MAX_KEY_CHARS} visible ASCII characters."
            raise ApiError(400, problem, code="bad_idempotency_key", param="Idempotency-Key")
        return OnceName(asked.actor, hashlib.sha256(key.encode()).digest())

    def _cipher_key(self, asked: Asked) -> bytes:
        text = f"lamina once\0{asked.actor}\0{asked.key}"
        return hmac.digest(self._secret, text.encode(), "sha256")


def _reused() -> ApiError:
    return ApiError(422, "This Idempotency-Key was used for another request.", code="idempotency_key_reused")


def _under_way() -> ApiError:
    problem = "The same change is under way. Ask again shortly."
    return ApiError(409, problem, code="in_flight", headers={"retry-after": "1"})


def _cut_short() -> ApiError:
    problem = "An earlier request with this key broke off. See whether it was done, and use a new key."
    return ApiError(409, problem, code="outcome_unknown")


def _unreadable() -> ApiError:
    problem = "This was done before, and its answer cannot be shown again."
    return ApiError(409, problem, code="already_done")
