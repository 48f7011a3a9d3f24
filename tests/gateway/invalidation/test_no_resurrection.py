"""Purges against concurrent writes, with real Redis and real SQL: nothing purged is ever served again.

Two workers with links and replicas of their own share one Redis and one database. Rules interleave fills that
begin and end apart, purges of every kind, flushes, crashes that restore an old snapshot, restarts of workers, and
changes that were committed while Redis was away. After each look-up the model says what was resurrected.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.db import Database, KeyRepository, PurgeRepository, TenantRepository
from gateway.errors import StoreUnavailable
from gateway.invalidation.announce import RedisAnnouncer
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.layers.entry import Entry, Sealer
from gateway.layers.exact import ExactLayer, auth_key, purge_key
from gateway.redis_link import RedisLink, RedisTarget
from policies.keys import KeySpace, Namespace
from tests.servers.redis import RedisServer
from tests.servers.sqlite import open_migrated

pytestmark = pytest.mark.flaky(reruns=0)  # what comes back once in a hundred runs is the very fault looked for

T = TypeVar("T")
KEYS = ("k0", "k1")
TAGS = ("red", "blue")
MODELS = ("m0", "m1")


class Worker:
    """What one gateway worker keeps: a link, replicas, nothing else."""

    def __init__(self, url: str, database: Database) -> None:
        self.faults: list[str] = []
        self.link = RedisLink(
            RedisTarget.parse(url), deadline_s=0.5, failures=10_000, retry_s=0.05, on_fault=self.faults.append
        )
        self.exact = ExactLayer(self.link)
        self.raised: list[asyncio.Task[None]] = []
        self.replicas = Replicas(TenantRepository(database), PurgeRepository(database), self._raise)
        self.seen = (0, 0)

    def _raise(self, tenant_id: str, auth_seq: int, purge_seq: int) -> None:
        async def work() -> None:
            with contextlib.suppress(StoreUnavailable):
                await self.link.raise_to({auth_key(tenant_id): max(0, auth_seq), purge_key(tenant_id): purge_seq})

        self.raised.append(asyncio.create_task(work()))


@dataclass
class Fill:
    """A write in flight: the model was asked, the answer is not stored yet."""

    key: str
    model: str
    tags: tuple[str, ...]
    as_of: int
    begun: int
    text: str


@dataclass
class Purged:
    """A purge that returned; `at` is its place in time."""

    kind: str
    value: str
    at: int


@dataclass
class Stored:
    """What the model knows of an answer."""

    fill: Fill
    done: int = 0
    dead_since: int | None = field(default=None)


class NoResurrection(RuleBasedStateMachine):
    """The machine; time is a counter of steps."""

    fills = Bundle("fills")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.redis = RedisServer()
        self.redis.start()
        self.now = 0
        self.texts = 0
        self.purges: list[Purged] = []
        self.answers: dict[str, Fill] = {}
        self.revoked_at: int | None = None
        self.highest = 0
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        self.now += 1
        return self.runner.run(work)

    async def _open(self) -> None:
        self.database = await open_migrated(f"sqlite:///{Path(self.folder.name) / 'lamina.db'}")
        record = await TenantRepository(self.database).create("t", "test", time.time())
        self.tenant_id = record.tenant_id
        self.key_record, _ = await KeyRepository(self.database).create("t", "k", "test", time.time())
        self.sealer = Sealer(b"s" * 32)
        self.announcer = RedisAnnouncer(RedisTarget.parse(self.redis.url), embedded=True)
        self.workers = [Worker(self.redis.url, self.database) for _ in range(2)]

    async def _replica(self, worker: Worker) -> TenantReplica:
        replica = await worker.replicas.owner(self.key_record.digest)
        assert replica is not None
        return replica

    async def _look_up(self, worker: Worker, key: str | None) -> tuple[TenantReplica, bytes | None]:
        """As the pipeline does: one round trip, then the replica made current."""
        replica = await self._replica(worker)
        try:
            found = await worker.exact.look_up(self.tenant_id, None if key is None else self._digest(key).hex)
        except StoreUnavailable:
            await worker.replicas.refresh(replica)
            return replica, None
        if not replica.matches(found.auth_seq, found.purge_seq, found.epoch):
            await worker.replicas.settle(replica, found.auth_seq, found.purge_seq, found.epoch)
        return replica, found.value

    def _digest(self, key: str) -> Any:
        return KeySpace(Namespace(self.tenant_id, "chat", "m")).of_caller(key)

    @initialize()
    def both_workers_know_the_tenant(self) -> None:
        for worker in self.workers:
            self.run(self._look_up(worker, None))

    @rule(
        target=fills,
        worker=st.integers(0, 1),
        key=st.sampled_from(KEYS),
        model=st.sampled_from(MODELS),
        tags=st.lists(st.sampled_from(TAGS), max_size=2, unique=True),
    )
    def begin_fill(self, worker: int, key: str, model: str, tags: list[str]) -> Fill:
        begun = self.now + 1
        replica, _ = self.run(self._look_up(self.workers[worker], key))
        self.texts += 1
        return Fill(key, model, tuple(tags), replica.purges.seq, begun, f"answer {self.texts}")

    @rule(fill=fills, worker=st.integers(0, 1))
    def finish_fill(self, fill: Fill, worker: int) -> None:
        async def write() -> None:
            digest = self._digest(fill.key)
            entry = Entry(
                key=digest.digest,
                tenant_id=self.tenant_id,
                created_s=0.0,
                ttl_s=1e9,
                as_of=fill.as_of,
                models=(fill.model,),
                user="",
                tags=fill.tags,
                versions=(),
                answer=(fill.text, 0, fill.model, None, {}),
                choices=(),
                request_id="r",
            )
            future = self.workers[worker].exact.write(self.tenant_id, digest.hex, self.sealer.seal(entry), 3600)
            if future is not None:
                with contextlib.suppress(StoreUnavailable):
                    await future

        self.answers[fill.text] = fill
        self.run(write())

    @rule(worker=st.integers(0, 1), key=st.sampled_from(KEYS))
    def fill_at_once(self, worker: int, key: str) -> None:
        self.finish_fill(self.begin_fill(worker, key, "m0", []), worker)

    @rule(worker=st.integers(0, 1), key=st.sampled_from(KEYS))
    def look_up(self, worker: int, key: str) -> None:
        begun = self.now + 1
        replica, value = self.run(self._look_up(self.workers[worker], key))
        active = replica.principal(self.key_record.digest) is not None
        assert active == (self.revoked_at is None or self.revoked_at > begun), "a revoked key was let in"
        if value is None:
            return
        entry = self.sealer.open(value, self.tenant_id, self._digest(key).digest)
        if replica.purges.verdict(entry.made(), entry.as_of) is not None:
            return
        fill = self.answers[entry.answer[0]]
        for purge in self.purges:
            resurrected = fill.begun < purge.at and purge.at < begun and self._names(purge, fill)
            assert not resurrected, f"{fill} was served after {purge}"

    def _names(self, purge: Purged, fill: Fill) -> bool:
        return {
            "all": True,
            "key": purge.value == self._digest(fill.key).hex,
            "model": purge.value == fill.model,
            "tag": purge.value in fill.tags,
        }[purge.kind]

    @rule(
        scope=st.one_of(
            st.just(("all", "")),
            st.sampled_from([("key", key) for key in KEYS]),
            st.sampled_from([("model", model) for model in MODELS]),
            st.sampled_from([("tag", tag) for tag in TAGS]),
        )
    )
    def purge(self, scope: tuple[str, str]) -> None:
        kind, value = scope
        value = self._digest(value).hex if kind == "key" else value

        async def work() -> int:
            row = await PurgeRepository(self.database).append(
                tenant_id=self.tenant_id, kind=kind, value=value, mode="hard", actor="t", reason="", now_s=0.0
            )
            state = await TenantRepository(self.database).state(self.tenant_id)
            assert state is not None
            await self.announcer.announce(self.tenant_id, state.auth_seq, row.seq)
            return row.seq

        seq = self.run(work())
        assert seq > self.highest, "the log went backwards"
        self.highest = seq
        self.purges.append(Purged(kind, value, self.now))

    @precondition(lambda self: self.revoked_at is None)
    @rule()
    def revoke(self) -> None:
        async def work() -> None:
            state = await KeyRepository(self.database).revoke(self.key_record.key_id, "t", 0.0)
            await self.announcer.announce(self.tenant_id, state.auth_seq, state.purge_seq)

        self.run(work())
        self.revoked_at = self.now

    @precondition(lambda self: self.redis.running)
    @rule()
    def flush_redis(self) -> None:
        self.redis.flush()

    @precondition(lambda self: self.redis.running)
    @rule(then_purge=st.booleans())
    def restore_an_old_snapshot(self, then_purge: bool) -> None:
        """A snapshot, perhaps a purge that Redis confirms, a crash, and the snapshot's keys are back."""
        self.redis.command("SAVE")
        if then_purge:
            self.purge(("all", ""))
        self.redis.kill()
        self.run(asyncio.sleep(0.01))  # idle workers notice; a request in flight would have asked the database
        self.redis.start()

    @precondition(lambda self: self.redis.running)
    @rule()
    def crash_redis(self) -> None:
        """What was written since the snapshot is lost; older entries and sequences come back at the restart."""
        self.redis.kill()

    @precondition(lambda self: not self.redis.running)
    @rule()
    def start_redis(self) -> None:
        self.redis.start()

    @rule(worker=st.integers(0, 1))
    def restart_worker(self, worker: int) -> None:
        async def work() -> None:
            await self.workers[worker].link.close()
            self.workers[worker] = Worker(self.redis.url, self.database)

        self.run(work())

    @rule(worker=st.integers(0, 1))
    def poll(self, worker: int) -> None:
        self.run(self.workers[worker].replicas.poll())

    @invariant()
    def sequences_never_fall(self) -> None:
        for worker in self.workers:
            for replica in worker.replicas._replicas.values():
                now = (replica.auth_seq, replica.purges.seq)
                assert now[0] >= worker.seen[0]
                assert now[1] >= worker.seen[1]
                worker.seen = now

    def teardown(self) -> None:
        async def work() -> None:
            for worker in self.workers:
                await asyncio.gather(*worker.raised)
                await worker.link.close()
            await self.database.close()

        self.run(work())
        self.runner.close()
        self.redis.close()
        self.folder.cleanup()


NoResurrection.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
class TestNoResurrection(NoResurrection.TestCase):  # type: ignore[name-defined,misc]
    """Runs the machine."""
