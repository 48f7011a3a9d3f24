"""Telling every worker of a change, strictly: also when the database was restored from before the latest ones."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway.invalidation.contract import Announcer
from gateway.invalidation.replica import PurgeSource, TenantSource

MAX_SEQUENCE = 2**53
_ALL_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Records:
    """The database, as far as telling needs it."""

    tenants: TenantSource
    purges: PurgeSource


async def tell(
    announcer: Announcer, records: Records, tenant_id: str, changed: tuple[int, int], now_s: float
) -> None:
    """Announces (auth_seq, purge_seq); when it returns, the next request on every worker sees the change.

    Redis may hold more than the database: then the database was restored, workers already know the number that the
    change was given, and none would look. So the database is raised above what they know, and that is announced.

    Raises:
        StoreUnavailable: Redis did not confirm.
        DatabaseUnavailable: the database did not answer.
    """
    held = await announcer.announce(tenant_id, *changed)
    if held == changed:
        return
    state = await records.tenants.state(tenant_id)
    if state is None or max(held) >= MAX_SEQUENCE:
        return
    if held[0] > state.auth_seq or held[1] > state.purge_seq:
        await records.tenants.raise_auth_seq(tenant_id, held[0] + 1)
        await records.purges.close_gap(tenant_id, held[1] + 1, now_s)
        await announcer.announce(tenant_id, held[0] + 1, held[1] + 1)


async def each_told(
    announce: Callable[[str, int, int], Awaitable[bool]],
    heads: Mapping[str, tuple[int, int]],
    within_s: float = _ALL_WITHIN_S,
) -> bool:
    """Announces a change of many tenants one by one; whether each was confirmed.

    The first that is not confirmed ends it, since none after it would be either, and so does the time: the rest is
    left to the poll that every worker makes of the database.

    Args:
        announce: a tenant's (auth_seq, purge_seq); says whether Redis confirmed, after trying for some seconds.
        heads: the sequences by tenant.
        within_s: none is begun after this time.
    """
    due_s = time.monotonic() + within_s
    for tenant_id, seqs in heads.items():
        if time.monotonic() >= due_s or not await announce(tenant_id, *seqs):
            return False
    return True
