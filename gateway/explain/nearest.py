"""The stored requests that are most like one asked about, and in which parts they differ."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.db import SemanticRow, SemanticRows
from gateway.db.asked_before import AskedBefore
from gateway.errors import SemanticUnavailable
from gateway.explain.findings import NearestFinding
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.semantic import decoded
from gateway.semantic_link import SemanticLink
from policies.nomination import Near
from policies.request_parts import differing_parts

_LEAST_SIMILARITY = 0.5
_DEADLINE_S = 3.0
_MOST = 5


@dataclass(frozen=True, slots=True)
class Nearest:
    """Looks in all of a tenant's rows, whatever their frame: by the letter, and by meaning with a service.

    Only requests that were stored to be found by meaning are known; of others Redis keeps nothing to compare.
    """

    rows: SemanticRows
    asked_before: AskedBefore
    sealer: Sealer
    link: SemanticLink | None

    async def find(
        self, tenant_id: str, question: str, parts: Mapping[str, bytes], *, by_meaning: bool
    ) -> tuple[NearestFinding, ...]:
        """The most alike first.

        Args:
            tenant_id: whose rows.
            question: the last user turn's text.
            parts: see `request_parts`.
            by_meaning: false for a question that may reach no index.

        Raises:
            DatabaseUnavailable: the rows cannot be read.
        """
        if not question.strip():
            return ()
        likeness: dict[int, float | None] = await self._by_letter(tenant_id, question)
        near = await self._near(tenant_id, question) if by_meaning else ()
        likeness = {**dict(near), **likeness}
        found = await self.rows.find(list(likeness))
        told = [
            self._finding(row, likeness[row.row], parts) for row in found.values() if row.tenant_id == tenant_id
        ]
        return tuple(sorted(told, key=_rank)[:_MOST])

    async def _by_letter(self, tenant_id: str, question: str) -> dict[int, float | None]:
        rows = await self.asked_before.rows(tenant_id, self.sealer.asked(tenant_id, question), _MOST)
        return dict.fromkeys(rows)

    async def _near(self, tenant_id: str, question: str) -> tuple[tuple[int, float], ...]:
        if self.link is None:
            return ()
        near = Near(tenant_id, text=question, similarity=_LEAST_SIMILARITY, limit=_MOST)
        try:
            return (await self.link.near(near, _DEADLINE_S)).rows
        except SemanticUnavailable:
            return ()

    def _finding(self, row: SemanticRow, similarity: float | None, parts: Mapping[str, bytes]) -> NearestFinding:
        try:
            known = self.sealer.open(row.sealed, row.tenant_id, row.key).parts
        except EntryError:
            known = {}
        question = decoded(self.sealer, row)
        return NearestFinding(
            row=row.row,
            key=row.key.hex(),
            question="" if question is None or not known else question.text,
            similarity=None if similarity is None else round(similarity, 4),
            state=row.state,
            differs=differing_parts(known, parts) if known else None,
        )


def _rank(one: NearestFinding) -> tuple[float, int, int]:
    return -(1.0 if one.similarity is None else one.similarity), len(one.differs or ()), -one.row
