"""What a worker knows of each tenant's credentials and purges, and when it must ask the database again.

The database is the truth. Redis mirrors each tenant's two sequences and is read with every request; a worker that
is behind, or that cannot trust what Redis says, reads the database before it judges. Source: DESIGN, section 5.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.db.records import Overrides, PurgeRow, TenantState
from policies.fingerprints import NOTHING_KNOWN, Known
from policies.purges import Made, Purge, PurgeIndex
from policies.types import Principal

_MAX_TENANTS = 10_000
_MAX_SEQUENCE = 2**53


class TenantSource(Protocol):
    """Reads tenants from the database; each call may raise DatabaseUnavailable."""

    async def state(self, tenant_id: str) -> TenantState | None:
        """The tenant's sequences and keys, or None when it does not exist."""
        ...

    async def by_key_digest(self, digest: bytes) -> TenantState | None:
        """The tenant that owns a key, also when the key is revoked."""
        ...

    async def raise_auth_seq(self, tenant_id: str, auth_seq: int) -> None:
        """Raises the credential sequence to at least this one."""
        ...


class PurgeSource(Protocol):
    """Reads the purge log; each call may raise DatabaseUnavailable."""

    async def since(self, tenant_id: str, seq: int) -> Sequence[PurgeRow]:
        """Rows above `seq`, ascending."""
        ...

    async def close_gap(self, tenant_id: str, seq: int, now_s: float) -> None:
        """Purges everything up to `seq`, when the log ends below it."""
        ...

    async def heads(self) -> dict[str, tuple[int, int]]:
        """Each tenant's (auth_seq, purge_seq)."""
        ...


class KeySource(Protocol):
    """Keeps the tenants' data keys; see gateway.invalidation.data_keys."""

    def lacks(self, tenant_id: str) -> bool:
        """Whether the tenant has no key to seal with."""
        ...

    async def refresh(self, tenant_id: str, *, make: bool) -> None:
        """Reads the tenant's keys, and makes the first; may raise DatabaseUnavailable."""
        ...

    async def retry(self) -> None:
        """Tries again where a first key could not be made; may raise DatabaseUnavailable."""
        ...


class VersionSource(Protocol):
    """Reads registered versions; each call may raise DatabaseUnavailable."""

    async def known(self, tenant_id: str) -> Known:
        """What a worker needs of them to say what an entry is made of."""
        ...


RaiseSequences = Callable[[str, int, int], None]
"""Raises a tenant's (auth_seq, purge_seq) in Redis, behind; must not fail."""


class TenantReplica:
    """One tenant as this worker knows it.

    Attributes:
        auth_seq: credentials are as of this sequence; it never falls.
        purges: the folded purge log.
        epoch: the Redis connection over which the sequences were last compared with the database.
        overrides: limits and modes, as of `auth_seq`; the same object until they change.
        known: registered versions, at least as new as `purges`.
    """

    __slots__ = ("_active", "auth_seq", "epoch", "known", "overrides", "purges", "tenant_id")

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self.auth_seq = -1
        self.purges = PurgeIndex(seq=0)
        self.epoch = -1
        self.overrides = Overrides()
        self.known = NOTHING_KNOWN
        self._active: dict[bytes, Principal] = {}

    def principal(self, digest: bytes) -> Principal | None:
        """Who owns an unrevoked key of this tenant."""
        return self._active.get(digest)

    def matches(self, auth_seq: int | None, purge_seq: int | None, epoch: int) -> bool:
        """Whether Redis says exactly what this replica knows, over a connection that was compared already."""
        return auth_seq == self.auth_seq and purge_seq == self.purges.seq and epoch == self.epoch

    def take_state(self, state: TenantState, known: Known | None = None) -> None:
        """Takes in the credentials, and registered versions, unless they are older than what is known."""
        if state.auth_seq < self.auth_seq:
            return
        self.auth_seq = state.auth_seq
        if known is not None:
            self.known = known
        if state.overrides != self.overrides:
            self.overrides = state.overrides
        keys = () if state.disabled else state.keys
        self._active = {
            key.digest: Principal(self.tenant_id, key.key_id) for key in keys if key.revoked_at is None
        }

    def take_purges(self, rows: Sequence[PurgeRow], head: int) -> None:
        """Takes in rows of the log up to `head`."""
        self.purges.fold(map(as_purge, rows), head)


def as_purge(row: PurgeRow) -> Purge:
    """A row of the log as judging takes it."""
    return Purge(row.seq, row.kind, row.value, row.mode, tuple(key.hex() for key in row.members), row.at)


class Replicas:
    """Every tenant this worker has met.

    A key maps to a tenant for ever, so that map may be remembered; whether the key is still good is judged anew
    for each request, after `settle`.

    Args:
        data_keys: None where nothing is encrypted.
        versions: None where none can be registered.
    """

    def __init__(  # noqa: PLR0917  (the sources of one set)
        self,
        tenants: TenantSource,
        purges: PurgeSource,
        raise_sequences: RaiseSequences,
        now_s: Callable[[], float] = time.time,
        data_keys: KeySource | None = None,
        versions: VersionSource | None = None,
    ) -> None:
        self._now_s = now_s
        self._versions = versions
        self._data_keys = data_keys
        self._tenants = tenants
        self._purges = purges
        self._raise = raise_sequences
        self._replicas: dict[str, TenantReplica] = {}
        self._owners: dict[bytes, str] = {}

    async def owner(self, digest: bytes) -> TenantReplica | None:
        """The replica of the tenant that owns a key; one indexed query when the key is new here.

        Raises:
            DatabaseUnavailable: the key is new here and the database does not answer.
        """
        tenant_id = self._owners.get(digest)
        if tenant_id is not None:
            return self._replicas[tenant_id]
        state = await self._tenants.by_key_digest(digest)
        if state is None:
            return None
        if len(self._replicas) >= _MAX_TENANTS:
            self._replicas.clear()
            self._owners.clear()
        replica = self._replicas.setdefault(state.tenant_id, TenantReplica(state.tenant_id))
        self._owners[digest] = state.tenant_id
        return replica

    async def settle(
        self, replica: TenantReplica, auth_seq: int | None, purge_seq: int | None, epoch: int
    ) -> None:
        """Makes the replica at least as new as Redis says and, where Redis may have lost writes, as the database.

        Redis is raised, behind, when it knows less.

        Raises:
            DatabaseUnavailable: the replica is behind and the database does not answer.
        """
        if replica.matches(auth_seq, purge_seq, epoch):
            return
        await self.refresh(replica)
        if (auth_seq or 0) > replica.auth_seq or (purge_seq or 0) > replica.purges.seq:
            await self._make_up(replica, auth_seq or 0, purge_seq or 0)
        replica.epoch = epoch
        if auth_seq is None or purge_seq is None or auth_seq < replica.auth_seq or purge_seq < replica.purges.seq:
            self._raise(replica.tenant_id, replica.auth_seq, replica.purges.seq)

    async def _make_up(self, replica: TenantReplica, auth_seq: int, purge_seq: int) -> None:
        """Raises the database to what Redis remembers: it was restored from before the latest changes.

        Without this, the next purge would get a number that living entries, and other workers, have already seen;
        so the database is raised above it, which also purges what was made since.
        """
        if max(auth_seq, purge_seq) > _MAX_SEQUENCE:
            return
        await self._tenants.raise_auth_seq(replica.tenant_id, auth_seq + 1)
        await self._purges.close_gap(replica.tenant_id, purge_seq + 1, self._now_s())
        await self.refresh(replica)

    async def _mend(self, replica: TenantReplica) -> None:
        """Makes up when the database knows less than this worker did before it asked."""
        auth_seq, purge_seq = replica.auth_seq, replica.purges.seq
        state = await self._tenants.state(replica.tenant_id)
        if state is not None and (state.auth_seq < auth_seq or state.purge_seq < purge_seq):
            await self._make_up(replica, auth_seq, purge_seq)

    async def refresh(self, replica: TenantReplica) -> None:
        """Reads the tenant from the database.

        Raises:
            DatabaseUnavailable: it does not answer.
        """
        state = await self._tenants.state(replica.tenant_id)
        if state is None:
            replica.take_state(TenantState(replica.tenant_id, "", True, replica.auth_seq, 0, ()))
            return
        rows: Sequence[PurgeRow] = ()
        if state.purge_seq > replica.purges.seq:
            rows = await self._purges.since(replica.tenant_id, replica.purges.seq)
        known = await self._known(replica, state, rows)
        await self._refresh_keys(replica, state)
        replica.take_purges(rows, max([state.purge_seq, *(row.seq for row in rows)]))
        replica.take_state(state, known)

    async def _known(self, replica: TenantReplica, state: TenantState, rows: Sequence[PurgeRow]) -> Known | None:
        """Versions, where they may have changed; read after the purges and taken over with them.

        So no entry is as new as a purge, and made without what its registration says of it.
        """
        if self._versions is None or (state.auth_seq <= replica.auth_seq and not rows):
            return None
        return await self._versions.known(replica.tenant_id)

    async def _refresh_keys(self, replica: TenantReplica, state: TenantState) -> None:
        """Done before the sequence is taken over, so that no request is judged by it without its keys."""
        keys = self._data_keys
        if keys is None:
            return
        live = not state.disabled
        if state.auth_seq > replica.auth_seq or (live and keys.lacks(state.tenant_id)):
            await keys.refresh(state.tenant_id, make=live)

    def purged(self, tenant_id: str, made: Made, as_of: int) -> bool:
        """Whether a hard purge has taken what was made, as far as this worker knows; asked before it is stored."""
        replica = self._replicas.get(tenant_id)
        if replica is None or replica.purges.nothing_since(as_of):
            return False
        return replica.purges.verdict(made, as_of) == "hard"

    async def poll(self) -> int:
        """Compares every known tenant with the database, and raises whichever of database and Redis is behind.

        Bounds how long a change is missed that was committed but could not be announced, and how long a database
        that was restored under running workers goes unnoticed.

        Returns:
            How many tenants had changed.

        Raises:
            DatabaseUnavailable: it does not answer.
        """
        changed = 0
        for tenant_id, (auth_seq, purge_seq) in (await self._purges.heads()).items():
            replica = self._replicas.get(tenant_id)
            if replica is None or (auth_seq == replica.auth_seq and purge_seq == replica.purges.seq):
                continue
            changed += 1
            await self.refresh(replica)
            await self._mend(replica)
            self._raise(tenant_id, replica.auth_seq, replica.purges.seq)
        if self._data_keys is not None:
            await self._data_keys.retry()
        return changed
