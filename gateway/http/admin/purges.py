"""Purges under `/admin/v1/purges`: made one by one or many at once, previewed, listed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from gateway.db import NewPurge, PurgeRepository, PurgeRow, SemanticRow
from gateway.errors import ApiError, SemanticUnavailable
from gateway.http.admin.bodies import Page, cursor_number, paged
from gateway.http.admin.caller import Caller
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import READS, REPEATABLE, Operator, Paged, Reader, area
from gateway.http.admin.purge_bodies import (
    ManyPurges,
    OnePurge,
    PreviewBody,
    PreviewSaid,
    PurgeBody,
    PurgeSaid,
    PurgesSaid,
    shown,
)
from gateway.invalidation.neighbourhood import MOST_MEMBERS, Neighbourhood, Neighbours
from gateway.invalidation.purging import Made
from gateway.invalidation.survey import Preview
from gateway.layers.semantic import decoded
from policies.purge_requests import PurgeRefused, Scope, groups_header, read_scope
from policies.purge_scopes import Purge

LEAST_SIMILARITY = 0.3
"""Below this cosine two questions have nothing to do with each other."""

_READER_S = 10.0


class PurgeDesk:
    """Turns what is asked for into rows of the log, and makes them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def all_prepared(
        self, caller: Caller, bodies: Sequence[PurgeBody]
    ) -> list[tuple[NewPurge, Neighbours | None]]:
        """Each as `prepared`; a tenant is looked up once."""
        names = dict.fromkeys(body.tenant for body in bodies)
        owners = {name: (await self._desk.tenant(caller, name)).tenant_id for name in names}
        return [await self.prepared(caller, body, owners) for body in bodies]

    async def prepared(
        self, caller: Caller, body: PurgeBody, owners: Mapping[str, str] | None = None
    ) -> tuple[NewPurge, Neighbours | None]:
        """The row that this purge would be, and the neighbours that it lists when it is by meaning.

        Args:
            caller: who asks.
            body: for what.
            owners: ids by name of tenants that the caller is known to have.

        Raises:
            ApiError: 400 it could match nothing; 409 it would not be what was expected; 503 the service is away.
            RecordError: not_found.
        """
        tenant_id = (owners or {}).get(body.tenant) or (await self._desk.tenant(caller, body.tenant)).tenant_id
        said = (body.mode, caller.actor, body.reason)
        if body.kind == "meaning":
            near = await self._near(tenant_id, body)
            return NewPurge(tenant_id, "meaning", near.value, *said, near.keys), near
        if (
            body.text is not None
            or body.similarity is not None
            or body.count is not None
            or body.expect is not None
        ):
            raise _refused("text", "text, similarity, count and expect belong to the kind meaning")
        try:
            scope = read_scope(body.kind, body.value, self._desk.now_s())
        except PurgeRefused as refused:
            raise _refused(refused.field, str(refused)) from None
        return NewPurge(tenant_id, scope.kind, self._of_route(scope), *said), None  # type: ignore[arg-type]

    def _of_route(self, scope: Scope) -> str:
        """The value; a route's alias stands for the route."""
        route = self._desk.routes.resolve(scope.value) if scope.kind == "route" else None
        return scope.value if route is None else route.name

    async def _near(self, tenant_id: str, body: PurgeBody) -> Neighbours:
        link = self._desk.link
        if not body.text or body.value:
            raise _refused("text", "a purge by meaning takes a text, and no value")
        if body.similarity is None and body.count is None:
            raise _refused("similarity", "a purge by meaning takes a similarity, a count, or both")
        if link is None or not await link.healthy():
            raise _away("No semantic service answers, or it is still catching up.")
        least = LEAST_SIMILARITY if body.similarity is None else body.similarity
        neighbourhood = Neighbourhood(link, self._desk.row_pages)
        try:
            near = await neighbourhood.of(tenant_id, body.text, least, body.count)
        except SemanticUnavailable:
            raise _away("The semantic service does not answer.") from None
        if near.more and body.count is None:
            raise _refused("similarity", f"more than {MOST_MEMBERS} entries are as near; raise it or give a count")
        if body.expect is not None and body.expect != near.value:
            raise ApiError(
                409, "Other entries are near now; preview again.", code="preview_is_old", param="expect"
            )
        return near

    async def make(self, purges: Sequence[tuple[NewPurge, Neighbours | None]]) -> Made:
        """Makes them, in order; when it returns, the next request on every worker sees them.

        Raises:
            ApiError: 503: they are made, and Redis did not confirm that all know.
        """
        made = await self._desk.purging.make([purge for purge, _ in purges])
        if not made.announced:
            raise _unconfirmed(made.rows)
        for purge, near in purges:
            if near is not None and near.found and purge.mode == "hard":
                await self._desk.rows.remove(purge.tenant_id, [one.row for one in near.found])
        return made

    async def preview(self, caller: Caller, body: PreviewBody) -> PreviewSaid:
        """What the purge would take.

        Raises:
            ApiError: 403 for questions without the role; else as `prepared`.
        """
        if body.show_text:
            caller.require("operator")
        purge, near = await self.prepared(caller, body)
        members = tuple(key.hex() for key in purge.members)
        asked = Purge(1, purge.kind, purge.value, "hard", members, self._desk.now_s())
        within_s = allowed_s(caller, body.within_s)
        preview = await self._desk.survey.preview(
            purge.tenant_id, [asked], within_s=within_s, sample=body.sample, mode=body.mode
        )
        sample = await self._sample(preview, near, body)
        return PreviewSaid(
            tenant=purge.tenant_id,
            kind=body.kind,
            value=purge.value,
            mode=body.mode,
            matches=preview.matches,
            looked_at=preview.looked_at,
            unread=preview.unread,
            complete=preview.complete,
            sample=sample,
        )

    async def _sample(self, preview: Preview, near: Neighbours | None, body: PreviewBody) -> list[dict[str, Any]]:
        survey = self._desk.survey
        if near is None:
            told = [(survey.told(item), item.row) for item in preview.sample]
        else:
            nearest = near.found[: body.sample]
            rows = await self._desk.rows.find([one.row for one in nearest])
            known = [(one, rows[one.row]) for one in nearest if one.row in rows]
            items = [(survey.of_row(row), one.similarity, row) for one, row in known]
            told = [
                ({**survey.told(item), "similarity": round(cosine, 4)}, row)
                for item, cosine, row in items
                if item is not None
            ]
        return [{**one, **self._question(row)} if body.show_text else one for one, row in told]

    def _question(self, row: SemanticRow | None) -> dict[str, Any]:
        question = None if row is None else decoded(self._desk.sealer, row)
        return {"question": None if question is None else question.text}


def allowed_s(caller: Caller, asked_s: float) -> float:
    """For how long a caller may have entries looked through: others wait meanwhile, so a reader gets less."""
    return min(asked_s, _READER_S) if caller.role == "reader" else asked_s


def purges_router(desk: Desk) -> APIRouter:
    """Making purges takes an operator, looking a reader."""
    router, work = area("purges"), PurgeDesk(desk)

    @router.post("/purges", summary="Purge", openapi_extra=REPEATABLE, response_model=PurgeSaid | PreviewSaid)
    async def purge(caller: Operator, body: OnePurge, response: Response) -> PurgeSaid | PreviewSaid:
        """Makes entries unusable from the next request on, on every worker and replica."""
        if body.dry_run:
            return await work.preview(caller, PreviewBody(**body.model_dump(exclude={"dry_run"})))
        made = await work.make([await work.prepared(caller, body)])
        _tell_groups(response, made)
        return shown(made.rows[0])

    @router.post("/purges/bulk", summary="Purge many", openapi_extra=REPEATABLE)
    async def bulk(caller: Operator, body: ManyPurges, response: Response) -> PurgesSaid:
        """Makes purges in one transaction and in this order; all of them, or none."""
        made = await work.make(await work.all_prepared(caller, body.purges))
        _tell_groups(response, made)
        return PurgesSaid(purges=[shown(row) for row in made.rows])

    @router.post("/purges/preview", summary="Preview a purge", openapi_extra=READS)
    async def preview(caller: Reader, body: PreviewBody) -> PreviewSaid:
        """Judges what is stored as the purge would, and changes nothing."""
        return await work.preview(caller, body)

    @router.get("/purges", summary="Purges")
    async def purges(caller: Reader, paging: Paged, tenant: str | None = None) -> Page[PurgeSaid]:
        """The log, the latest first."""
        tenant_ids = caller.tenants
        if tenant is not None:
            tenant_ids = frozenset({(await desk.tenant(caller, tenant)).tenant_id})
        after = _row_of(paging.after)
        rows = await PurgeRepository(desk.database).page(tenant_ids, after, paging.limit + 1)
        return paged(rows, paging.limit, _cursor, shown)

    return router


def _tell_groups(response: Response, made: Made) -> None:
    header = groups_header([Scope(row.kind, row.value) for row in made.rows])
    if header:
        response.headers["cache-group-invalidation"] = header


def _cursor(row: PurgeRow) -> str:
    return f"{row.at!r}_{row.tenant_id}_{row.seq}"


def _row_of(after: str | None) -> PurgeRow | None:
    if after is None:
        return None
    at, tenant_id, seq = [*after.split("_"), "", ""][:3]
    try:
        at_s = float(at)
    except ValueError:
        at_s = math.nan
    number = cursor_number(seq)
    if number is None or not math.isfinite(at_s):
        raise _refused("after", "send the `next` of the page before")
    return PurgeRow(tenant_id, number, "all", "", "hard", "", "", at_s)


def _refused(field: str, problem: str) -> ApiError:
    return ApiError(400, f"{problem[:1].upper()}{problem[1:]}.", code="bad_purge", param=field)


def _away(problem: str) -> ApiError:
    return ApiError(503, problem, code="semantic_unavailable", kind="server_error", headers={"retry-after": "1"})


def _unconfirmed(rows: Sequence[PurgeRow]) -> ApiError:
    told = ", ".join(str(row.seq) for row in rows[:5])
    problem = (
        f"Made as {told}, but Redis did not confirm it: each worker follows when it next reads the database. "
        "Send it again to be sure."
    )
    return ApiError(503, problem, code="purge_unconfirmed", kind="server_error", headers={"retry-after": "1"})
