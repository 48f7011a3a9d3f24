"""Making purges: whoever asks at the same time shares a transaction, and nobody suffers for another's mistake."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gateway.db import Appended, NewPurge, PurgeRepository, RecordError, TenantRepository
from gateway.errors import DatabaseUnavailable
from gateway.invalidation.purging import Made, Purging
from tests.servers.sqlite import open_migrated


class Counted:
    """The log, and how many transactions there were."""

    def __init__(self, log: PurgeRepository) -> None:
        self.log = log
        self.transactions = 0
        self.away = False
        self.broken = False

    async def append_all(self, purges: Sequence[NewPurge], now_s: float) -> Appended:
        self.transactions += 1
        if self.away:
            raise DatabaseUnavailable("away")
        if self.broken:
            self.broken = False
            raise ZeroDivisionError
        return await self.log.append_all(purges, now_s)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Counted]:
    database = await open_migrated(f"sqlite:///{tmp_path}/lamina.db", deadline_s=30)
    await TenantRepository(database).create("acme", "test", 1.0)
    yield Counted(PurgeRepository(database))
    await database.close()


async def tenant_of(log: Counted) -> str:
    return next(iter(await log.log.heads()))


def tagged(tenant_id: str, value: str) -> NewPurge:
    return NewPurge(tenant_id, "tag", value, "hard", "ann", "")


async def test_purges_at_the_same_time_share_transactions_and_announcements(log: Counted) -> None:
    told: list[tuple[str, int, int]] = []

    async def announce(tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        told.append((tenant_id, auth_seq, purge_seq))
        return True

    tenant_id = await tenant_of(log)
    purging = Purging(log, announce, lambda: 2.0, pytest.fail)
    made = await asyncio.gather(
        *(purging.make([tagged(tenant_id, str(n)), tagged(tenant_id, "x")]) for n in range(50))
    )
    assert [row.seq for one in made for row in one.rows] == list(range(1, 101))
    assert [one.rows[0].value for one in made] == [str(n) for n in range(50)]
    assert all(one.announced for one in made)
    assert log.transactions <= 2
    assert max(told) == (tenant_id, 0, 100)


async def test_one_that_cannot_be_fails_alone(log: Counted) -> None:
    async def announce(_tenant_id: str, _auth_seq: int, _purge_seq: int) -> bool:
        return True

    tenant_id = await tenant_of(log)
    purging = Purging(log, announce, lambda: 2.0, pytest.fail)
    asked = [tagged(tenant_id, "a"), tagged("T0000000000000000", "b"), tagged(tenant_id, "c")]
    made = await asyncio.gather(*(purging.make([one]) for one in asked), return_exceptions=True)
    assert isinstance(made[1], RecordError)
    assert [one.rows[0].value for one in made if isinstance(one, Made)] == ["a", "c"]
    log.away = True
    with pytest.raises(DatabaseUnavailable):
        await purging.make([tagged(tenant_id, "d")])
    log.away = False
    assert (await purging.make([tagged(tenant_id, "e")])).rows[0].seq == 3


async def test_what_nobody_confirms_is_made_and_said_to_be_unannounced(log: Counted) -> None:
    tries = 0

    async def announce(_tenant_id: str, _auth_seq: int, _purge_seq: int) -> bool:
        nonlocal tries
        tries += 1
        return tries > 3

    tenant_id = await tenant_of(log)
    patient = await Purging(log, announce, lambda: 2.0, pytest.fail).make([tagged(tenant_id, "a")])
    assert (patient.announced, tries) == (True, 4)
    tries = 0
    hasty = await Purging(log, announce, lambda: 2.0, pytest.fail, give_up_s=0.05).make([tagged(tenant_id, "b")])
    assert (hasty.announced, hasty.rows[0].seq) == (False, 2)


async def test_whoever_leaves_does_not_stop_it(log: Counted) -> None:
    async def announce(_tenant_id: str, _auth_seq: int, _purge_seq: int) -> bool:
        return True

    tenant_id = await tenant_of(log)
    purging = Purging(log, announce, lambda: 2.0, pytest.fail)
    leaving = asyncio.create_task(purging.make([tagged(tenant_id, "a")]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await purging.make([tagged(tenant_id, "b")])).rows[0].seq == 2


async def test_an_error_that_nobody_foresaw_is_told_and_the_next_purges_are_made(log: Counted) -> None:
    async def announce(_tenant_id: str, _auth_seq: int, _purge_seq: int) -> bool:
        return True

    faults: list[str] = []
    tenant_id = await tenant_of(log)
    purging = Purging(log, announce, lambda: 2.0, faults.append)
    log.broken = True
    async with asyncio.timeout(5):
        many = [tagged(tenant_id, str(number)) for number in range(900)]
        asked = (many, many, [tagged(tenant_id, "last")])  # too many for one transaction
        first, second, third = await asyncio.gather(*map(purging.make, asked), return_exceptions=True)
        assert isinstance(first, ZeroDivisionError)
        assert isinstance(second, Made)
        assert isinstance(third, Made)
    assert faults == ["ZeroDivisionError"]


async def test_what_cannot_be_announced_for_an_unforeseen_reason_is_made(log: Counted) -> None:
    async def announce(_tenant_id: str, _auth_seq: int, _purge_seq: int) -> bool:
        raise ZeroDivisionError

    faults: list[str] = []
    purging = Purging(log, announce, lambda: 2.0, faults.append)
    made = await purging.make([tagged(await tenant_of(log), "a")])
    assert (made.announced, faults) == (False, ["ZeroDivisionError"])
