"""The guardrails in force: their versions, and what becomes of an answer that one speaks against."""

from fastapi import APIRouter
from pydantic import Field

from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Reader, area
from policies.guardrails.types import Guard

_MEANING = {
    "refuse": "is not stored",
    "private": "is stored only where one user, session or conversation shares it",
    "exact_only": "is kept out of the semantic layer",
    "short_life": "is kept out of the semantic layer and given a short life",
}


class Policy(Said):
    """A guard.

    Attributes:
        finds: what it looks for.
        action: what becomes of an answer it speaks against, in a word; `forbids`: the same in a sentence.
        of_questions: whether it also judges a question before there is an answer.
    """

    name: str = Field(examples=["pii"])
    version: str = Field(examples=["1"])
    finds: str = Field(examples=["Finds personal data by kind."])
    action: str = Field(examples=["private"])
    forbids: str = Field(examples=["An answer it speaks against is kept out of the semantic layer."])
    of_questions: bool


class Policies(Said):
    """All guards.

    Attributes:
        version: equal only for equal judgement; every entry carries the one that let it be stored.
        enabled: whether any guard is asked.
    """

    version: str = Field(examples=["9c1f"])
    enabled: bool
    items: list[Policy]


def policies_router(desk: Desk) -> APIRouter:
    """Guardrails, read only: they are code and settings."""
    router = area("policies")

    @router.get("/policies", summary="List guardrails")
    async def policies(_caller: Reader) -> Policies:
        """In the order in which they are asked."""
        items = [
            Policy(
                name=guard.name,
                version=guard.version,
                finds=_finds(guard),
                action=material.action,
                forbids=f"An answer it speaks against {_MEANING[material.action]}.",
                of_questions=guard.of_questions,
            )
            for guard, material in desk.guards.built
        ]
        enabled = desk.settings.guards.enabled
        return Policies(version=desk.guards.policy_version, enabled=enabled, items=items)

    return router


def _finds(guard: Guard) -> str:
    """The first clause of the guard's own description."""
    first, _, _ = (type(guard).__doc__ or "").partition("\n")
    return f"{first.partition(';')[0].rstrip('.')}."
