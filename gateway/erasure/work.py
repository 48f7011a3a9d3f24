"""The order of an erasure: the key first, then the purge, then the bytes, then the files, then the proof."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.db import DataKeyRepository, PurgeRepository, TenantRepository
from gateway.db.erasing import ErasingRepository
from gateway.erasure.contract import Scope, Store
from gateway.errors import DatabaseUnavailable, LaminaError
from policies.erasure import Report, StoreProof, merged

T = TypeVar("T")

_SETTLE_S = 2.5
"""Longer than a worker goes without asking the database: after it, none stores what was purged before."""

_ROUNDS = 5
_PAUSE_S = 1.0

Announce = Callable[[str, int, int], Awaitable[bool]]
"""Tells every worker a tenant's (auth_seq, purge_seq); false when Redis did not confirm."""

Learn = Callable[[str], Awaitable[None]]
"""Brings a tenant's data keys into this worker; raises DatabaseUnavailable."""

Told = Callable[[str, str], Awaitable[None]]
"""Hears what is being done: a step and its state; never raises."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records that an erasure changes."""

    tenants: TenantRepository
    keys: DataKeyRepository
    purges: PurgeRepository
    erasing: ErasingRepository


@dataclass(frozen=True, slots=True)
class Order:
    """Who asked for what, and when."""

    erasure_id: str
    scope: Scope
    actor: str


class Eraser:
    """Carries out one erasure. Every step may be done again, so one that broke off is simply asked for anew.

    Args:
        records: of tenants.
        stores: in the order in which they are erased; files last.
        announce: tells the workers.
        learn: asked before entries of a user are opened: what nobody can open goes with any user.
        now_s: seconds since the epoch.
        closing: closes what the stores alone use.
        settle_s: how long to wait for answers that are under way; None for as long as that may take.
    """

    def __init__(
        self,
        records: Records,
        stores: Sequence[Store],
        announce: Announce,
        learn: Learn,
        now_s: Callable[[], float],
        *,
        closing: Callable[[], Awaitable[None]],
        settle_s: float | None = None,
    ) -> None:
        self._records = records
        self._stores = stores
        self._announce = announce
        self._learn = learn
        self._now_s = now_s
        self._closing = closing
        self._settle_s = _SETTLE_S if settle_s is None else settle_s

    async def close(self) -> None:
        """Closes what was opened for this erasure."""
        await self._closing()

    @property
    def steps(self) -> tuple[str, ...]:
        """Their names, in order."""
        return ("keys", "purge", "settle", *(store.name for store in self._stores))

    async def run(self, order: Order, told: Told) -> Report:
        """Erases.

        Raises:
            LaminaError: nothing may be left to be served, and yet not everything may be gone: ask again.
        """
        begun_at, tenant_id = self._now_s(), order.scope.tenant_id
        await told("keys", "running")
        destroyed = await _patiently(lambda: self._destroy(order))
        await told("purge", "running")
        auth_seq, purge_seq, announced = await _patiently(lambda: self._purge(order))
        await told("settle", "running")
        await asyncio.sleep(self._settle_s)
        if not order.scope.everything:  # else nothing is opened
            await _patiently(lambda: self._learn(tenant_id))
        proofs = [await self._erased(store, order.scope, told) for store in self._stores]
        await told("proof", "running")
        return Report(
            erasure_id=order.erasure_id,
            scope="user" if order.scope.user else "tenant",
            tenant_id=tenant_id,
            actor=order.actor,
            begun_at=begun_at,
            ended_at=self._now_s(),
            auth_seq=auth_seq,
            purge_seq=purge_seq,
            announced=announced,
            keys_destroyed=destroyed,
            stores=tuple(proofs),
        )

    async def _destroy(self, order: Order) -> tuple[str, ...]:
        scope, records = order.scope, self._records
        if not scope.user:
            await records.erasing.disable(scope.tenant_id, self._now_s())
        if not scope.everything:
            return ()
        gone = await records.keys.destroy(scope.tenant_id, order.actor, self._now_s())
        return tuple(record.key_id for record in gone)

    async def _purge(self, order: Order) -> tuple[int, int, bool]:
        scope = order.scope
        reason = f"erasure {order.erasure_id}"
        row = await self._records.purges.append(
            tenant_id=scope.tenant_id,
            kind="all" if scope.everything else "user",
            value="" if scope.everything else f"#{scope.person}",
            mode="hard",
            actor=order.actor,
            reason=reason,
            now_s=self._now_s(),
        )
        state = await self._records.tenants.state(scope.tenant_id)
        auth_seq = 0 if state is None else state.auth_seq
        return auth_seq, row.seq, await self._announce(scope.tenant_id, auth_seq, row.seq)

    async def _erased(self, store: Store, scope: Scope, told: Told) -> StoreProof:
        """Erases a store until a second look finds it clean, a few times at most."""
        await told(store.name, "running")
        rounds: list[StoreProof] = []
        for _ in range(_ROUNDS):
            try:
                rounds.append(await store.erase(scope))
            except LaminaError as error:
                rounds.append(StoreProof(store.name, 0, 0, 0, None, f"it did not answer: {error}"))
                await asyncio.sleep(_PAUSE_S)
                continue
            if not rounds[-1].left:
                break
        proof = merged(store.name, rounds)
        await told(store.name, "clean" if proof.left == 0 else "left")
        return proof


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Does what may be done twice, again where the database does not answer at once."""
    for _ in range(_ROUNDS - 1):
        try:
            return await work()
        except DatabaseUnavailable:
            await asyncio.sleep(_PAUSE_S)
    return await work()
