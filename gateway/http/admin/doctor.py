"""The prefix doctor: which fields of prompts keep them from being read from a prompt cache."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict

from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Reader, area
from gateway.ledger.checkup import SPAN_S
from policies.doctor import Ailment
from policies.ledger import usd

_FINDING: dict[str, Any] = {
    "tenant_id": "ten_0123456789abcdef",
    "model": "gpt-4o-mini",
    "kind": "time",
    "place": "messages[0].content",
    "requests": 39,
    "lost_tokens": 13124,
    "lost_usd": "0.000984225",
    "remedy": "Move the time behind all that stays the same, into the last user turn, or round it to the day.",
}


class FindingSaid(Said):
    """A field that broke prefixes; `lost_usd` is null where no price is known."""

    tenant_id: str
    model: str
    kind: str
    place: str
    requests: int
    lost_tokens: int
    lost_usd: str | None
    remedy: str


class DiagnosisSaid(Said):
    """What prompts of the last day lose: the most costly first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "on": True,
                    "span_s": SPAN_S,
                    "requests": 40,
                    "compared": 39,
                    "prompt_tokens": 14000,
                    "kept_tokens": 100,
                    "lost_tokens": 13124,
                    "findings": [_FINDING],
                }
            ]
        }
    )

    on: bool
    span_s: int = SPAN_S
    requests: int = 0
    compared: int = 0
    prompt_tokens: int = 0
    kept_tokens: int = 0
    lost_tokens: int = 0
    findings: tuple[FindingSaid, ...] = ()


def doctor_router(desk: Desk) -> APIRouter:
    """The diagnosis; a token that is bound to some tenants sees theirs."""
    router = area("doctor")
    checkup, prices = desk.ledger.checkup, desk.ledger.ledger.prices

    def said(one: Ailment) -> FindingSaid:
        price = prices.of(one.model)
        lost = None if price is None else usd(int(one.lost_tokens) * (price.input - price.read))
        return FindingSaid(
            tenant_id=one.tenant,
            model=one.model,
            kind=one.kind,
            place=one.place,
            requests=one.requests,
            lost_tokens=round(one.lost_tokens),
            lost_usd=lost,
            remedy=one.remedy,
        )

    @router.get("/doctor", summary="What breaks prompt prefixes")
    async def doctor(caller: Reader, tenant: Annotated[str | None, Query(max_length=80)] = None) -> DiagnosisSaid:
        """Names the field, what it cost and the remedy; of prompts that reached a model, without any text."""
        if checkup is None:
            return DiagnosisSaid(on=False)
        only = None if tenant is None else (await desk.tenant(caller, tenant)).tenant_id
        found = await checkup.diagnosis(lambda one: caller.may(one) if only is None else one == only)
        return DiagnosisSaid(
            on=True,
            requests=found.requests,
            compared=found.compared,
            prompt_tokens=round(found.tokens),
            kept_tokens=round(found.kept_tokens),
            lost_tokens=round(found.lost_tokens),
            findings=tuple(said(one) for one in found.ailments),
        )

    return router
