"""Labels and guards' states, on both databases."""

import asyncio
from dataclasses import replace

from gateway.db import Database, TenantRecord
from gateway.db.budget import BudgetRepository, Counted, MarkRow, PoolName


def mark(pool: PoolName, number: int, *, share: float | None = None) -> MarkRow:
    return MarkRow(0, pool, number, float(number), number % 2 == 0, "audit", share, 1000.0 + number)


async def test_labels_come_back_in_order(database: Database, tenant: TenantRecord) -> None:
    budget = BudgetRepository(database)
    one, other = PoolName(tenant.tenant_id, "m", "v1"), PoolName(tenant.tenant_id, "m", "v2")
    await budget.add([])
    assert await budget.head() == 0
    await budget.add([mark(one, 1), mark(other, 2, share=0.5), mark(one, 3, share=0.02)])
    found = await budget.after(0, 10)
    assert [replace(row, number=0) for row in found] == [
        mark(one, 1),
        mark(other, 2, share=0.5),
        mark(one, 3, share=0.02),
    ]
    assert [row.row for row in await budget.newest(one, 10)] == [1, 3]
    assert [row.row for row in await budget.newest(one, 1)] == [3]
    assert await budget.after(found[0].number, 1) == found[1:2]
    assert await budget.head() == found[-1].number


async def test_counts_add_up_over_workers(database: Database, tenant: TenantRecord) -> None:
    budget = BudgetRepository(database)
    pool = PoolName(tenant.tenant_id, "m", "v1")
    await asyncio.gather(*(budget.count([Counted(pool, 10, 5, 3)], 1000.0) for _ in range(6)))
    state = (await budget.states())[pool]
    assert (state.asked, state.would, state.served, state.caution) == (60, 30, 18, "normal")


async def test_of_workers_that_step_at_once_one_does(database: Database, tenant: TenantRecord) -> None:
    budget = BudgetRepository(database)
    pool = PoolName(tenant.tenant_id, "m", "v1")
    await budget.count([Counted(pool, 10, 5, 3)], 1000.0)
    before = (await budget.states())[pool]
    steps = [budget.step(before, "tightened", "over_budget", 7 + worker, 2000.0) for worker in range(4)]
    assert sorted(await asyncio.gather(*steps)) == [False, False, False, True]
    after = (await budget.states())[pool]
    assert (after.caution, after.reason, after.since, after.asked) == ("tightened", "over_budget", 2000.0, 0)
    assert not await budget.step(before, "suspended", "over_budget", 99, 3000.0)


async def test_old_labels_are_forgotten(database: Database, tenant: TenantRecord) -> None:
    budget = BudgetRepository(database)
    pool = PoolName(tenant.tenant_id, "m", "v1")
    await budget.add([mark(pool, number) for number in range(4)])
    assert await budget.forget(1002.0) == 2
    assert [row.row for row in await budget.newest(pool, 10)] == [2, 3]
