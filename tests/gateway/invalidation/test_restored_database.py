"""A database restored from before the latest purges and revocations: Redis remembers that there were some."""

import shutil
import time
from pathlib import Path

from gateway.db import Database, KeyRepository, PurgeRepository, TenantRepository, TenantState
from gateway.invalidation.announce import RedisAnnouncer
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.invalidation.telling import Records, tell
from gateway.layers.exact import ExactLayer
from gateway.redis_link import RedisLink, RedisTarget
from policies.purges import Made
from tests.servers.redis import RedisServer

MADE = Made("00" * 32, ("m",))


class Restored:
    """Two purges and a new key, announced; then the database of before, as a backup brings it back."""

    def __init__(self, redis: RedisServer) -> None:
        self.target = RedisTarget.parse(redis.url)
        self.faults: list[str] = []
        self.link = RedisLink(self.target, deadline_s=0.5, failures=100, retry_s=0.1, on_fault=self.faults.append)

    async def open(self, folder: Path) -> None:
        before, after = folder / "before.db", folder / "after.db"
        database = Database.open(f"sqlite:///{before}", deadline_s=20)
        await database.migrate()
        tenant = await TenantRepository(database).create("t", "test", 0.0)
        self.tenant_id = tenant.tenant_id
        self.key, _ = await KeyRepository(database).create("t", "k", "test", 0.0)
        await database.close()
        shutil.copy(before, after)
        database = Database.open(f"sqlite:///{before}", deadline_s=20)
        for _ in range(2):
            await PurgeRepository(database).append(self.tenant_id, "tag", "x", "hard", "test", "", 0.0)
        await KeyRepository(database).create("t", "k2", "test", 0.0)
        state = await TenantRepository(database).state(self.tenant_id)
        await database.close()
        assert state is not None
        await RedisAnnouncer(self.target, embedded=False).announce(self.tenant_id, state.auth_seq, state.purge_seq)
        self.database = Database.open(f"sqlite:///{after}", deadline_s=20)
        self.purges = PurgeRepository(self.database)

    async def replica(self) -> TenantReplica:
        replicas = Replicas(TenantRepository(self.database), self.purges, lambda *_: None, time.time)
        replica = await replicas.owner(self.key.digest)
        assert replica is not None
        await self.settled(replicas, replica)
        return replica

    async def settled(self, replicas: Replicas, replica: TenantReplica) -> None:
        """As each request does: one round trip, then the replica made current."""
        found = await ExactLayer(self.link).look_up(self.tenant_id, None)
        if not replica.matches(found.auth_seq, found.purge_seq, found.epoch):
            await replicas.settle(replica, found.auth_seq, found.purge_seq, found.epoch)

    async def close(self) -> None:
        await self.link.close()
        await self.database.close()


async def test_what_the_lost_purges_may_have_named_is_dead(tmp_path: Path, redis_server: RedisServer) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    replica = await it.replica()
    assert replica.purges.verdict(MADE, as_of=2) == "hard", "made before or after the backup: nobody knows"
    assert replica.purges.verdict(MADE, as_of=3) is None
    (row,) = await it.purges.since(it.tenant_id, 0)
    assert (row.seq, row.kind, row.mode) == (3, "all", "hard")
    await it.close()


async def test_the_next_purge_gets_a_number_that_no_entry_has_seen(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    await it.replica()
    row = await it.purges.append(it.tenant_id, "all", "", "hard", "test", "", 0.0)
    assert row.seq == 4
    state = await TenantRepository(it.database).state(it.tenant_id)
    assert state is not None
    await RedisAnnouncer(it.target, embedded=False).announce(it.tenant_id, state.auth_seq, row.seq)
    assert (await it.replica()).purges.verdict(MADE, as_of=3) == "hard"
    await it.close()


async def test_making_up_twice_changes_nothing(tmp_path: Path, redis_server: RedisServer) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    await it.replica()
    await it.replica()
    await it.purges.close_gap(it.tenant_id, 3, 0.0)
    await it.purges.close_gap(it.tenant_id, 1, 0.0)
    assert [row.seq for row in await it.purges.since(it.tenant_id, 0)] == [3]
    assert (await it.purges.heads())[it.tenant_id][1] == 3
    await it.close()


async def test_an_absurd_sequence_in_redis_is_not_taken_over(tmp_path: Path, redis_server: RedisServer) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    redis_server.command("SET", f"lamina:{{{it.tenant_id}}}:purge", "9" * 18)
    replicas = Replicas(TenantRepository(it.database), it.purges, lambda *_: None, time.time)
    replica = await replicas.owner(it.key.digest)
    assert replica is not None
    found = await ExactLayer(it.link).look_up(it.tenant_id, None)
    await replicas.settle(replica, found.auth_seq, found.purge_seq, found.epoch)
    assert (await it.purges.heads())[it.tenant_id][1] == 0
    await it.close()


class KnowsMore:
    """A worker that ran on while its database was replaced by the backup: it and Redis remember the same."""

    def __init__(self, it: Restored) -> None:
        self.it = it
        self.raised: list[tuple[str, int, int]] = []

    async def start(self) -> TenantReplica:
        it = self.it
        self.replicas = Replicas(
            TenantRepository(it.database), it.purges, lambda *told: self.raised.append(told), time.time
        )
        replica = await self.replicas.owner(it.key.digest)
        assert replica is not None
        found = await ExactLayer(it.link).look_up(it.tenant_id, None)
        replica.auth_seq, replica.epoch = found.auth_seq or 0, found.epoch
        replica.purges.fold((), found.purge_seq or 0)
        assert replica.matches(found.auth_seq, found.purge_seq, found.epoch)
        return replica


async def test_a_purge_after_the_restore_holds_on_a_worker_that_ran_on(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    worker = KnowsMore(it)
    replica = await worker.start()
    row = await it.purges.append(it.tenant_id, "all", "", "hard", "test", "", 0.0)
    assert row.seq == 1, "the restored database counts from before"
    state = await TenantRepository(it.database).state(it.tenant_id)
    assert state is not None
    records = Records(TenantRepository(it.database), it.purges)
    announcer = RedisAnnouncer(it.target, embedded=False)
    await tell(announcer, records, it.tenant_id, (state.auth_seq, row.seq), 0.0)
    await it.settled(worker.replicas, replica)
    assert replica.purges.verdict(MADE, as_of=2) == "hard"
    await it.close()


async def test_a_key_revoked_after_the_restore_is_out_on_a_worker_that_ran_on(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    worker = KnowsMore(it)
    replica = await worker.start()
    replica.take_state(await current(it))
    revoked = await KeyRepository(it.database).revoke(it.key.key_id, "test", 0.0)
    records = Records(TenantRepository(it.database), it.purges)
    announcer = RedisAnnouncer(it.target, embedded=False)
    await tell(announcer, records, it.tenant_id, (revoked.auth_seq, revoked.purge_seq), 0.0)
    await it.settled(worker.replicas, replica)
    assert replica.principal(it.key.digest) is None
    await it.close()


async def test_the_poll_notices_a_restore_by_itself(tmp_path: Path, redis_server: RedisServer) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    worker = KnowsMore(it)
    replica = await worker.start()
    assert await worker.replicas.poll() == 1
    assert replica.purges.verdict(MADE, as_of=2) == "hard"
    assert worker.raised == [(it.tenant_id, replica.auth_seq, 3)]
    assert await worker.replicas.poll() == 0
    await it.close()


async def test_others_who_announced_later_changes_are_no_restore(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    it = Restored(redis_server)
    await it.open(tmp_path)
    await it.replica()
    records = Records(TenantRepository(it.database), it.purges)
    announcer = RedisAnnouncer(it.target, embedded=False)
    first = await it.purges.append(it.tenant_id, "tag", "x", "hard", "test", "", 0.0)
    second = await it.purges.append(it.tenant_id, "tag", "y", "hard", "test", "", 0.0)
    auth_seq = (await current(it)).auth_seq
    await tell(announcer, records, it.tenant_id, (auth_seq, second.seq), 0.0)
    await tell(announcer, records, it.tenant_id, (auth_seq, first.seq), 0.0)
    assert (await it.purges.heads())[it.tenant_id][1] == second.seq
    await it.close()


async def current(it: Restored) -> TenantState:
    state = await TenantRepository(it.database).state(it.tenant_id)
    assert state is not None
    return state
