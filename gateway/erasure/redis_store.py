"""Entries in Redis, and its snapshot and log on disk."""

import asyncio
import time
from collections.abc import AsyncIterator

from gateway.erasure.contract import Scope
from gateway.errors import StoreUnavailable
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import auth_key, purge_key
from gateway.redis_link import RedisLink
from policies.erasure import StoreProof

_SCANNED_AT_ONCE = 500
_READ_AT_ONCE = 20
_BUSY = "Redis refused: ERR"
_SAVED_WITHIN_S = 60.0
_POLL_S = 0.1


class RedisStore:
    """Everything under the tenant's name but its two sequences, which hold back what is older everywhere.

    Args:
        link: with a deadline for many keys; `close` it.
        sealer: opens entries, to see whose they are.
    """

    name = "redis"

    def __init__(self, link: RedisLink, sealer: Sealer) -> None:
        self._link = link
        self._sealer = sealer

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        looked_at, found, removed = 0, 0, 0
        async for names in self._names(scope):
            looked_at += len(names)
            doomed = await self._doomed(scope, names)
            found += len(doomed)
            removed += int(await self._link.call("UNLINK", *doomed)) if doomed else 0
        left = 0
        async for names in self._names(scope):
            left += len(await self._doomed(scope, names))
        return StoreProof(self.name, looked_at, found, removed, left)

    async def _names(self, scope: Scope) -> AsyncIterator[list[bytes]]:
        kept = {name(scope.tenant_id).encode() for name in (auth_key, purge_key)}
        what = "*" if scope.everything else "e:*"
        cursor = b"0"
        while True:
            reply = await self._link.call(
                "SCAN", cursor, "MATCH", f"lamina:{{{scope.tenant_id}}}:{what}", "COUNT", _SCANNED_AT_ONCE
            )
            cursor, names = reply
            fresh = [name for name in names if name not in kept]
            if fresh:
                yield fresh
            if cursor == b"0":
                return

    async def _doomed(self, scope: Scope, names: list[bytes]) -> list[bytes]:
        if scope.everything:
            return names
        doomed: list[bytes] = []
        for at in range(0, len(names), _READ_AT_ONCE):
            some = names[at : at + _READ_AT_ONCE]
            values = await self._link.call("MGET", *some)
            doomed += [
                name
                for name, value in zip(some, values, strict=True)
                if isinstance(value, bytes) and self._goes(scope, name, value)
            ]
        return doomed

    def _goes(self, scope: Scope, name: bytes, value: bytes) -> bool:
        """Whether an entry goes; one that nobody can read goes too, since it serves nobody."""
        try:
            key = bytes.fromhex(name.rpartition(b":")[2].decode())
            return scope.takes(self._sealer.open(value, scope.tenant_id, key))
        except (EntryError, ValueError):
            return True


class RedisFiles:
    """Redis's own files: written anew, so that none still holds what was removed."""

    name = "redis_files"

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        del scope
        try:
            before = await self._facts()
            await self._begun("BGSAVE", "SCHEDULE")
            if before.get("aof_enabled") == "1":
                await self._begun("BGREWRITEAOF")
        except StoreUnavailable as error:
            note = f"Redis did not take BGSAVE ({error}): write its snapshot and log anew yourself"
            return StoreProof(self.name, 1, 0, 0, None, note)
        saved = await self._saved(before)
        note = "" if saved else "Redis was not seen to finish its snapshot; its log says why"
        return StoreProof(self.name, 1, 1, int(saved), 0 if saved else None, note)

    async def _begun(self, *command: str) -> None:
        """Asks until Redis takes it: one that is under way began before the removal, and refuses another."""
        ends = time.monotonic() + _SAVED_WITHIN_S
        while True:
            try:
                await self._link.call(*command)
            except StoreUnavailable as error:
                if _BUSY not in str(error) or time.monotonic() > ends:
                    raise
                await asyncio.sleep(_POLL_S)
            else:
                return

    async def _saved(self, before: dict[str, str]) -> bool:
        begun = time.monotonic()
        while time.monotonic() - begun < _SAVED_WITHIN_S:
            await asyncio.sleep(_POLL_S)
            now = await self._facts()
            idle = now.get("rdb_bgsave_in_progress") == now.get("aof_rewrite_in_progress") == "0"
            scheduled = now.get("aof_rewrite_scheduled") == "1"
            later = now.get("rdb_last_save_time", "0") > before.get("rdb_last_save_time", "0")
            clean = now.get("rdb_changes_since_last_save") == "0"
            if idle and not scheduled and (later or clean):
                return now.get("rdb_last_bgsave_status") == "ok"
        return False

    async def _facts(self) -> dict[str, str]:
        raw = await self._link.call("INFO", "persistence")
        lines = raw.decode().splitlines() if isinstance(raw, bytes) else []
        return dict(line.split(":", 1) for line in lines if ":" in line)
