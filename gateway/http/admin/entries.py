"""Entries under `/admin/v1/entries`: sought in both layers, shown, deleted. No text but for operators who ask."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gateway.db import NewPurge
from gateway.errors import ApiError
from gateway.http.admin.bodies import Page
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Operator, Paged, Reader, area
from gateway.http.admin.purge_bodies import EntrySaid, Mode, PurgeSaid, shown
from gateway.http.admin.purges import PurgeDesk
from gateway.invalidation.stored import EXACT, Item, Place
from gateway.layers.semantic import decoded
from policies.purge_requests import PurgeRefused, read_scope
from policies.purge_scopes import Purge

_WITHIN_S = 5.0
_SOUGHT = ("model", "route", "tag", "user", "session", "version")
Wanted = Annotated[str | None, Query(max_length=512)]


def entries_router(desk: Desk) -> APIRouter:
    """Looking takes a reader, texts and deleting an operator."""
    router, work = area("entries"), EntryDesk(desk)

    @router.get("/entries", summary="Entries")
    async def entries(  # noqa: PLR0917  (one parameter per name that is sought)
        caller: Reader,
        paging: Paged,
        tenant: Annotated[str, Query(max_length=80)],
        model: Wanted = None,
        route: Wanted = None,
        tag: Wanted = None,
        user: Wanted = None,
        session: Wanted = None,
        version: Wanted = None,
        age: Annotated[str | None, Query(max_length=64, description="Made before: a time, or 30m, 7d.")] = None,
    ) -> Page[dict[str, Any]]:
        """Live entries that answer to every name given. A page holds about `limit`, and may hold none while `next`
        says where to go on.
        """
        owner = await desk.tenant(caller, tenant)
        given = dict(zip(_SOUGHT, (model, route, tag, user, session, version), strict=True))
        names = work.names({**given, "age": age})
        return await work.page(owner.tenant_id, names, paging.after, paging.limit)

    @router.get("/entries/{tenant}/{entry_id}", summary="Entry")
    async def entry(caller: Reader, tenant: str, entry_id: str, *, text: bool = False) -> EntrySaid:
        """What is known of an answer; `text=true` adds question and answer, and takes an operator."""
        owner = await desk.tenant(caller, tenant)
        if text:
            caller.require("operator")
        return await work.show(owner.tenant_id, entry_id, text=text)

    @router.delete("/entries/{tenant}/{entry_id}", summary="Delete an entry")
    async def delete(
        caller: Operator,
        tenant: str,
        entry_id: str,
        mode: Mode = "hard",
        reason: Annotated[str, Query(max_length=512)] = "",
    ) -> PurgeSaid:
        """The same as a purge of kind `entry`."""
        owner = await desk.tenant(caller, tenant)
        key = _key_of(entry_id).hex()
        purge = NewPurge(owner.tenant_id, "key", key, mode, caller.actor, reason)
        made = await PurgeDesk(desk).make([(purge, None)])
        return shown(made.rows[0])

    return router


class EntryDesk:
    """Finds and shows entries."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def names(self, wanted: dict[str, str | None]) -> list[Purge]:
        """What is sought, written as purges that would take it.

        Raises:
            ApiError: 400: a name could match nothing.
        """
        found = []
        for kind, value in wanted.items():
            if value is not None:
                try:
                    scope = read_scope(kind, value, self._desk.now_s())
                except PurgeRefused as refused:
                    raise ApiError(400, f"{refused}.", code="bad_name", param=kind) from None
                found.append(Purge(1, scope.kind, scope.value, "hard"))
        return found

    async def page(
        self, tenant_id: str, names: list[Purge], after: str | None, limit: int
    ) -> Page[dict[str, Any]]:
        """A page, beginning where the one before ended."""
        begin = Place() if after is None else Place.parse(after)
        if begin is None:
            raise ApiError(400, "Send the `next` of the page before.", code="bad_after", param="after")
        found = await self._desk.survey.find(tenant_id, names, begin=begin, limit=limit, within_s=_WITHIN_S)
        following = None if found.next is None else str(found.next)
        return Page(items=[self._desk.survey.told(item) for item in found.items], next=following)

    async def show(self, tenant_id: str, entry_id: str, *, text: bool) -> EntrySaid:
        """One answer.

        Raises:
            ApiError: 404: neither layer has it.
        """
        key = _key_of(entry_id)
        rows = await self._desk.rows.of_keys(tenant_id, [key])
        found = await self._desk.survey.one(tenant_id, key.hex(), rows)
        if not found:
            raise ApiError(404, f"There is no entry {key.hex()}.", code="not_found")
        told = [{**self._desk.survey.told(item), "purged": purged} for item, purged in found]
        said = EntrySaid(tenant=tenant_id, id=key.hex(), entries=told)
        return said.model_copy(update=self._text([item for item, _ in found])) if text else said

    def _text(self, items: list[Item]) -> dict[str, Any]:
        questions = [decoded(self._desk.sealer, item.row) for item in items if item.row is not None]
        question = next((one.text for one in questions if one is not None), None)
        exact = next((item for item in items if item.layer == EXACT), items[0])
        return {"question": question, "answer": [choice.message for choice in exact.entry.response().choices]}


def _key_of(entry_id: str) -> bytes:
    try:
        return bytes.fromhex(read_scope("entry", entry_id, 0.0).value)
    except PurgeRefused as refused:
        raise ApiError(404, f"There is no such entry: {refused}.", code="not_found") from None
