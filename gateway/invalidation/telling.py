"""Telling every worker of a change, strictly: also when the database was restored from before the latest ones."""

from dataclasses import dataclass

from gateway.invalidation.contract import Announcer
from gateway.invalidation.replica import PurgeSource, TenantSource

MAX_SEQUENCE = 2**53


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
