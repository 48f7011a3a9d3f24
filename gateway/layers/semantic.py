"""The semantic layer: rows in SQL, nominated by the service; none answers before its place is proven."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from gateway.db import SemanticRows
from gateway.db.records import SemanticRow
from gateway.errors import DatabaseUnavailable, SemanticUnavailable
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.opened import Opened, OpenedEntries
from gateway.layers.parts import Parts
from gateway.semantic_link import SemanticLink
from gateway.settings import SemanticSettings
from policies.breaker import Breaker
from policies.encryption import question_place
from policies.nomination import Ask, Candidate, Nominated
from policies.questions import Place, Question


@dataclass(frozen=True, slots=True)
class Proven:
    """A candidate whose row was read and proven to be of this tenant and key.

    Attributes:
        key: digest of the exact key that the row's question was asked under.
    """

    candidate: Candidate
    key: bytes
    opened: Opened


@dataclass(frozen=True, slots=True)
class Unfit:
    """A candidate whose row cannot answer; the reason is one of policies.semantic.MISSES."""

    reason: str


class SemanticLayer:
    """Nominations and rows, both within one deadline.

    A service that is slow, down or lies costs at most the deadline, and nothing once its breaker is open; so does
    a database.
    """

    name = "semantic"

    @classmethod
    def from_parts(cls, parts: Parts) -> Self | None:
        """The layer over the set's rows and service; None where there is no service."""
        if parts.semantic is None:
            return None

        def on_fault(reason: str) -> None:
            parts.metrics.fault("semantic", reason)

        return cls(parts.semantic, parts.rows, parts.sealer, parts.settings.semantic, on_fault)

    def __init__(
        self,
        link: SemanticLink,
        rows: SemanticRows,
        sealer: Sealer,
        settings: SemanticSettings,
        on_fault: Callable[[str], None],
    ) -> None:
        self._link = link
        self._rows = rows
        self._sealer = sealer
        self._opened = OpenedEntries(sealer)
        self._deadline_s = settings.deadline_ms / 1000
        self._limit = settings.limit
        self._conversations = settings.conversations
        self._breaker = Breaker(settings.breaker_failures, settings.breaker_retry_ms / 1000)
        self._on_fault = on_fault
        self._asking: dict[tuple[bytes, Question], asyncio.Task[Nominated]] = {}
        self.written = 0

    def due_s(self) -> float:
        """When a look-up that begins now must be over, by the loop's clock."""
        return asyncio.get_running_loop().time() + self._deadline_s

    async def nominate(self, place: Place, due_s: float) -> Nominated:
        """Candidates for a question; requests that ask the same at the same time share one call.

        Raises:
            SemanticUnavailable: no usable answer in time.
        """
        asked = (place.partition, place.question)
        task = self._asking.get(asked)
        if task is None:
            family = place.family if self._conversations else place.partition
            ask = Ask(place.partition, family, place.question, self._limit, self.written)
            left_s = max(0.001, due_s - asyncio.get_running_loop().time())
            task = asyncio.create_task(self._link.nominate(ask, left_s), name="nominate")
            self._asking[asked] = task
            task.add_done_callback(lambda done: self._answered(asked, done))
        return await asyncio.shield(task)

    def _answered(self, asked: tuple[bytes, Question], task: asyncio.Task[Nominated]) -> None:
        del self._asking[asked]
        if not task.cancelled():
            task.exception()  # whoever waited has it; without this the loop would complain for those who left

    async def prove(
        self, tenant_id: str, place: Place, candidates: Sequence[Candidate], due_s: float
    ) -> list[Proven | Unfit]:
        """Reads the candidates' rows at once; each is proven to be of this tenant and place, or unfit.

        Raises:
            SemanticUnavailable: the database does not answer in time.
        """
        if not candidates:
            return []
        found = await self._read([candidate.row for candidate in candidates], due_s)
        return [self._proven(tenant_id, place, one, found.get(one.row)) for one in candidates]

    async def _read(self, rows: list[int], due_s: float) -> dict[int, SemanticRow]:
        if not self._breaker.allow(time.monotonic()):
            raise SemanticUnavailable("rows")
        try:
            async with asyncio.timeout_at(due_s):
                found = await self._rows.find(rows)
        except (TimeoutError, DatabaseUnavailable):
            self._breaker.failure(time.monotonic())
            self._on_fault("rows")
            raise SemanticUnavailable("rows") from None
        self._breaker.success()
        return found

    def _proven(
        self, tenant_id: str, place: Place, candidate: Candidate, row: SemanticRow | None
    ) -> Proven | Unfit:
        if row is None:
            return Unfit("semantic_gone")
        if row.tenant_id != tenant_id or not self._belongs(place, candidate, row):
            self._on_fault("foreign_row")
            return Unfit("semantic_foreign")
        if row.state != "live":
            return Unfit("semantic_quarantined")
        try:
            opened = self._opened.open(row.sealed, tenant_id, row.key)
        except EntryError as error:
            self._on_fault(f"entry_{error.reason}")
            return Unfit("semantic_corrupt")
        if opened.entry.about != about(row.family, row.partition, row.question):
            self._on_fault("entry_moved")
            return Unfit("semantic_corrupt")
        return Proven(candidate, row.key, opened)

    def question_of(self, row: SemanticRow) -> Question | None:
        """What was asked in a row; None when it cannot be read."""
        return decoded(self._sealer, row)

    def _belongs(self, place: Place, candidate: Candidate, row: SemanticRow) -> bool:
        """Whether the row's place is one that the service may look in; it is not taken at its word."""
        if candidate.how == "conversation":
            return self._conversations and row.family == place.family
        return row.partition == place.partition


def encoded(question: Question) -> bytes:
    """A question as rows hold it, before encryption."""
    return msgspec.msgpack.encode(question)


def decoded(sealer: Sealer, row: SemanticRow) -> Question | None:
    """The question that a row holds; None when it cannot be read."""
    place = question_place(row.tenant_id, row.family, row.partition)
    try:
        return msgspec.msgpack.decode(sealer.open_field(row.tenant_id, place, row.question), type=Question)
    except (EntryError, msgspec.MsgspecError):
        return None


def about(family: bytes, partition: bytes, question: bytes) -> bytes:
    """What a row's sealed entry says that it answers, so that no entry can be moved to another question.

    The question goes in as the row holds it, encrypted or not.
    """
    return hashlib.sha256(family + partition + question).digest()
