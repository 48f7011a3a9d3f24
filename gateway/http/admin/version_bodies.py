"""What the routes of versions and dependencies take and tell."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from gateway.db import EVERYBODY, Changed, VersionRow
from gateway.http.admin.bodies import Body, Name, Said, Text
from policies.dependencies import Affected, Change, Version
from policies.registrations import (
    MAX_INSTRUCTION_CHARS,
    MOST_INSTRUCTIONS,
    MOST_MODELS,
    MOST_TOOLS,
    Registered,
)

Kind = Literal["prompt", "tools", "knowledge_base", "policy", "model", "adapter"]
Mode = Literal["hard", "soft"]
What = Literal["register", "retire", "content"]
VersionId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Instruction = Annotated[str, StringConstraints(max_length=MAX_INSTRUCTION_CHARS)]


class NewVersion(Body):
    """A version to be registered; the same again changes nothing.

    Attributes:
        depends_on: `name@version`, or `name` for whichever of its versions are live.
        instructions: texts by which requests are recognised, in a system or developer message; `{{gaps}}` may be
            filled by anything.
        tools: tools by which requests are recognised, as OpenAI's or Anthropic's clients send them.
        models: names of the models that are this version.
        content: a digest, a date or the like of what no request carries.
        beside: whether versions that are live stay so; else this one replaces them.
        mode: `hard` makes entries that stand on what changes dead, `soft` stale.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "product-docs",
                    "version": "2026-11-30",
                    "kind": "knowledge_base",
                    "content": "snapshot 4711",
                }
            ]
        }
    )

    name: Name
    version: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    kind: Kind
    depends_on: list[Text] = Field(default_factory=list, max_length=64)
    instructions: list[Instruction] = Field(default_factory=list, max_length=MOST_INSTRUCTIONS)
    tools: list[dict[str, Any]] = Field(default_factory=list, max_length=MOST_TOOLS)
    models: list[Name] = Field(default_factory=list, max_length=MOST_MODELS)
    content: Text = ""
    beside: bool = False
    mode: Mode = "hard"

    def said(self) -> Registered:
        """The same, free of pydantic."""
        return Registered(
            self.name,
            self.version,
            self.kind,
            tuple(self.depends_on),
            tuple(self.instructions),
            tuple(self.tools),
            tuple(self.models),
            self.content,
        )


class VersionSaid(Said):
    """A registered version.

    Attributes:
        tenant: whose it is; null for one of every tenant.
        depends_on: what it stands on.
        digests: how many texts and tools it is recognised by.
        templates: how many texts with gaps.
        live: whether it is neither replaced nor given up.
        registered_at, retired_at: seconds since the epoch.
    """

    id: str = Field(examples=["product-docs@2026-11-30"])
    tenant: str | None
    name: str
    version: str
    kind: str
    depends_on: list[str]
    digests: int
    templates: int
    models: list[str]
    content: str
    live: bool
    registered_at: float
    retired_at: float | None


class ChangedSaid(Said):
    """What a change came to.

    Attributes:
        outcome: `registered`, `changed` (of other content than before), `live` (again, or alone), `linked` (other
            dependencies), `retired` or `unchanged`.
        taken: versions whose entries went: what was replaced or altered, and what stands on it.
        purges: rows in logs that this took.
        older: whether entries from before are recognised too; those by templates are not.
        announced: whether every worker is known to see it; else each follows within about a second. Of
            all tenants, the first that Redis does not confirm ends the announcing.
    """

    version: VersionSaid
    outcome: str
    taken: list[str]
    purges: int
    older: bool
    announced: bool


class ImpactSaid(Said):
    """What a change would take; nothing was changed.

    Attributes:
        taken: versions whose entries would go.
        scopes: the purges that would be made.
        matches: by layer, live entries that would go; `looked_at`: that were judged.
        complete: false when time was up before everything was looked at.
    """

    id: str
    change: What
    tenant: str | None
    taken: list[str]
    scopes: list[dict[str, str]]
    matches: dict[str, int]
    looked_at: dict[str, int]
    unread: int
    complete: bool


class ForeseenSaid(ImpactSaid):
    """What a registration would come to; nothing was changed.

    Attributes:
        outcome: as of the registration.
        retired: versions that it would replace.
    """

    outcome: str
    retired: list[str]


def shown(row: VersionRow) -> VersionSaid:
    """A version as it is told."""
    version = row.version
    return VersionSaid(
        id=str(version.ref),
        tenant=None if row.scope == EVERYBODY else row.scope,
        name=version.name,
        version=version.version,
        kind=version.kind,
        depends_on=[str(ref) for ref in version.depends_on],
        digests=len(version.prints),
        templates=len(version.templates),
        models=list(version.models),
        content=version.content,
        live=row.retired_at is None,
        registered_at=row.registered_at,
        retired_at=row.retired_at,
    )


def shown_change(changed: Changed, *, announced: bool) -> ChangedSaid:
    """A change as it is told."""
    return ChangedSaid(
        version=shown(changed.row),
        outcome=changed.outcome,
        taken=names(changed.taken.versions),
        purges=changed.purges,
        older=not changed.row.version.templates,
        announced=announced,
    )


def names(versions: tuple[Version, ...]) -> list[str]:
    """Versions by their ids, in order."""
    return sorted(str(one.ref) for one in versions)


def scopes(taken: Affected) -> list[dict[str, str]]:
    """Purges as they are told."""
    return [{"kind": kind, "value": value} for kind, value in taken.scopes]


def shown_id(change: Change) -> str:
    """What a change is about."""
    return str(change.ref)
