"""Feedback: "that answer was wrong" takes the entry and what is near it out of service, and teaches the budget."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.budget import Budget
from gateway.db import PurgeRepository, SemanticRow, SemanticRows
from gateway.db.budget import MarkRow, PoolName
from gateway.errors import ApiError, DatabaseUnavailable, SemanticUnavailable, StoreUnavailable
from gateway.invalidation.contract import Announcer
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.invalidation.telling import Records, tell
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import ExactLayer
from gateway.layers.opened import Opened, OpenedEntries
from gateway.telemetry.metrics import Metrics
from policies.nomination import Near, NearRows
from policies.types import Principal

_LIVE = "live"
_NEAR_DEADLINE_S = 2.0
_MOST_NEAR = 100
_ROWS_WITH_NEIGHBOURS = 4


class Nearby(Protocol):
    """Finds rows near a row; may raise SemanticUnavailable."""

    async def near(self, near: Near, deadline_s: float) -> NearRows:
        """The rows, nearest first."""
        ...


class Done(msgspec.Struct, frozen=True):
    """What came of a feedback.

    Attributes:
        id: as given.
        verdict: as given.
        already: whether it had been said before, so that nothing was left to do.
        purged: exact keys that will not be served again.
        quarantined: rows of the semantic layer taken out of service, the neighbours among them.
        neighbours: how many of these were neighbours; None when the service did not say who they are.
        labels: how many labels the error budget got.
    """

    id: str
    verdict: str
    already: bool
    purged: tuple[str, ...] = ()
    quarantined: int = 0
    neighbours: int | None = 0
    labels: int = 0


@dataclass(frozen=True, slots=True)
class Desk:
    """What feedback passes through; built in wiring. Without a semantic layer, `budget` and `service` are None."""

    replicas: Replicas
    exact: ExactLayer
    sealer: Sealer
    records: Records
    purges: PurgeRepository
    rows: SemanticRows
    announcer: Announcer
    budget: Budget | None
    service: Nearby | None
    similarity: float
    metrics: Metrics
    now_s: Callable[[], float]


class Feedback:
    """Acts on what users say of answers; saying it twice changes nothing more."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._opened = OpenedEntries(desk.sealer)

    async def take(self, principal: Principal, key_digest: bytes, id_: str, verdict: str) -> Done:
        """Acts on one verdict about the answer with this id: the exact key that came as X-Lamina-Cache-Id.

        Raises:
            ApiError: 404: the tenant has no such answer; 503: it could not be done, and may be asked again.
        """
        with self._in_full():
            replica = await self._desk.replicas.owner(key_digest)
            if replica is None:
                raise _unknown(id_)
            return await self._act(replica, f"key {principal.key_id}", id_, verdict)

    async def take_for(self, tenant_id: str, actor: str, id_: str, verdict: str) -> Done:
        """Acts on what somebody else says for a tenant that must exist.

        Raises:
            ApiError: as `take`.
        """
        with self._in_full():
            replica = TenantReplica(tenant_id)
            await self._desk.replicas.refresh(replica)
            return await self._act(replica, actor, id_, verdict)

    @contextlib.contextmanager
    def _in_full(self) -> Iterator[None]:
        try:
            yield
        except (DatabaseUnavailable, StoreUnavailable):
            self._desk.metrics.fault("feedback", "unavailable")
            raise ApiError(
                503,
                "The feedback could not be acted on in full: a store does not answer. Send it again shortly.",
                code="feedback_unavailable",
                kind="server_error",
                headers={"retry-after": "1"},
            ) from None

    async def _act(self, replica: TenantReplica, actor: str, id_: str, verdict: str) -> Done:
        key, tenant_id = _key_of(id_), replica.tenant_id
        opened = None if key is None else await self._entry(tenant_id, key)
        keys = [] if key is None else [key, *_source(opened)]
        rows = await self._desk.rows.of_keys(tenant_id, keys) if keys else []
        if key is None or (opened is None and not rows):
            raise _unknown(id_)
        if verdict == "right":
            return Done(id_, verdict, already=False, labels=await self._label(tenant_id, rows, right=True))
        dead = opened is None or replica.purges.verdict(opened.entry.made(), opened.entry.as_of) == "hard"
        live = [row for row in rows if row.state == _LIVE]
        if dead and not live:
            return Done(id_, verdict, already=True)
        return await self._wrong((tenant_id, actor), id_, keys, live)

    async def _entry(self, tenant_id: str, key: bytes) -> Opened | None:
        found = await self._desk.exact.look_up(tenant_id, key.hex())
        if found.value is None:
            return None
        try:
            return self._opened.open(found.value, tenant_id, key)
        except EntryError:
            return None

    async def _wrong(
        self,
        whose: tuple[str, str],
        id_: str,
        keys: Sequence[bytes],
        live: Sequence[SemanticRow],
    ) -> Done:
        tenant_id, actor = whose
        labels = await self._label(tenant_id, live, right=False)
        near = await self._near(tenant_id, live)
        own = [row.row for row in live]
        others = sorted(set(near or ()) - set(own))
        desk, now_s = self._desk, self._desk.now_s()
        quarantined = await desk.rows.quarantine(tenant_id, own, now_s) if own else 0
        neighbours = await desk.rows.quarantine(tenant_id, others, now_s) if others else 0
        for key in keys:
            await self._purge(tenant_id, actor, key)
        desk.metrics.feedback("wrong")
        return Done(
            id_,
            "wrong",
            already=False,
            purged=tuple(key.hex() for key in keys),
            quarantined=quarantined + neighbours,
            neighbours=None if near is None else neighbours,
            labels=labels,
        )

    async def _purge(self, tenant_id: str, actor: str, key: bytes) -> None:
        """Purges one exact key, hard, and tells every worker."""
        desk = self._desk
        row = await desk.purges.append(
            tenant_id,
            "key",
            key.hex(),
            "hard",
            actor,
            "reported wrong",
            desk.now_s(),
        )
        state = await desk.records.tenants.state(tenant_id)
        auth_seq = 0 if state is None else state.auth_seq
        await tell(desk.announcer, desk.records, tenant_id, (auth_seq, row.seq), desk.now_s())

    async def _near(self, tenant_id: str, rows: Sequence[SemanticRow]) -> set[int] | None:
        """Rows near these; None when the service does not say."""
        service = self._desk.service
        if service is None:
            return None if rows else set()
        found: set[int] = set()
        for row in rows[:_ROWS_WITH_NEIGHBOURS]:
            asked = Near(tenant_id, row=row.row, similarity=self._desk.similarity, limit=_MOST_NEAR)
            try:
                found |= {number for number, _ in (await service.near(asked, _NEAR_DEADLINE_S)).rows}
            except SemanticUnavailable:
                self._desk.metrics.fault("feedback", "neighbours")
                return None
        return found

    async def _label(self, tenant_id: str, rows: Sequence[SemanticRow], *, right: bool) -> int:
        """Labels for the budget, at the scores at which the rows came up last in this worker."""
        budget = self._desk.budget
        marks = [] if budget is None else [self._mark(budget, tenant_id, row, right=right) for row in rows]
        known = [mark for mark in marks if mark is not None]
        if budget is not None and known:
            await budget.add(known)
        if right:
            self._desk.metrics.feedback("right")
        return len(known)

    def _mark(self, budget: Budget, tenant_id: str, row: SemanticRow, *, right: bool) -> MarkRow | None:
        seen = budget.score_for(tenant_id, row.route, row.row)
        if seen is None:
            return None
        models, score = seen
        name = PoolName(tenant_id, row.route, models)
        return MarkRow(0, name, row.row, score, right, "feedback", None, self._desk.now_s())


def _source(opened: Opened | None) -> list[bytes]:
    """The key that the entry is a copy of, when it is one."""
    return [opened.entry.source] if opened is not None and opened.entry.source else []


def _key_of(id_: str) -> bytes | None:
    digits = 64
    if len(id_) != digits or not set(id_) <= set("0123456789abcdef"):
        return None
    return bytes.fromhex(id_)


def _unknown(id_: str) -> ApiError:
    return ApiError(
        404,
        f"There is no stored answer {id_[:80]!r}. Send the X-Lamina-Cache-Id that came with the answer.",
        code="unknown_answer",
        param="id",
    )
