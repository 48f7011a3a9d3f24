"""What the routes of purges and entries take and tell."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from gateway.db import PurgeRow
from gateway.http.admin.bodies import Body, Name, Said, Text
from gateway.invalidation.neighbourhood import MOST_MEMBERS
from gateway.invalidation.survey import MOST_SAMPLED
from policies.purge_scopes import is_digest

Kind = Literal["entry", "tag", "tenant", "user", "session", "model", "version", "age", "route", "meaning"]
Mode = Literal["hard", "soft"]
Meaning = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
MOST_AT_ONCE = 1000
_SHOWN_KINDS = {"all": "tenant", "key": "entry", "versions": "version"}
_OF_SOMEBODY = frozenset({"user", "session"})
ERASED = "#erased"
"""Stands for the digest of somebody who was erased: who may read the log could hold a guessed id against it."""


class PurgeBody(Body):
    """A purge.

    Attributes:
        tenant: whose entries, by name or id.
        kind: what is named.
        value: the name; see docs/purge.md for each kind. Empty for `tenant` and `meaning`.
        text: of `meaning`: entries whose question is near this text. It is not kept.
        similarity: of `meaning`: least cosine, higher is closer.
        count: of `meaning`: the nearest so many; with `similarity`, at most so many.
        expect: of `meaning`: the `value` of a preview; refused when it is not exactly those entries any more.
        mode: `hard` makes entries dead, `soft` stale.
        reason: kept in the log and the audit.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"tenant": "default", "kind": "tag", "value": "prices", "reason": "new price list"}]
        }
    )

    tenant: Name
    kind: Kind
    value: Text = ""
    text: Meaning | None = None
    similarity: Annotated[float, Field(ge=-1, le=1)] | None = None
    count: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] | None = None
    expect: Text | None = None
    mode: Mode = "hard"
    reason: Text = ""


class OnePurge(PurgeBody):
    """A purge, or with `dry_run` what it would take."""

    dry_run: bool = False


class ManyPurges(Body):
    """Purges to be made in this order, all or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "purges": [
                        {"tenant": "default", "kind": "tag", "value": "prices"},
                        {"tenant": "default", "kind": "version", "value": "kb<7"},
                    ]
                }
            ]
        }
    )

    purges: Annotated[list[PurgeBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class PreviewBody(PurgeBody):
    """A purge that is not made.

    Attributes:
        sample: how many of the matches to show.
        show_text: whether to show questions; takes an operator.
        within_s: how long to look at most, waiting for a turn included; a reader gets 10 s.
    """

    sample: Annotated[int, Field(ge=0, le=MOST_SAMPLED)] = 20
    show_text: bool = False
    within_s: Annotated[float, Field(gt=0, le=60)] = 10.0


class PurgeSaid(Said):
    """A purge that was made.

    Attributes:
        seq: its number in the tenant's log.
        value: what it names; `#erased` for a user who was erased.
        members: of `meaning`, how many entries it takes.
    """

    tenant: str
    seq: int
    kind: str
    value: str
    members: int | None
    mode: str
    actor: str
    reason: str
    at: float


class PurgesSaid(Said):
    """Purges that were made, in order."""

    purges: list[PurgeSaid]


class PreviewSaid(Said):
    """What a purge would take.

    Attributes:
        matches: by layer, live entries that it would take.
        looked_at: by layer, entries that were judged.
        unread: values that cannot be read as entries of this set.
        complete: false when time was up before all was looked at.
        value: as the log would have it; of `meaning`, what `expect` takes.
        sample: some of the matches; of `meaning`, the nearest first.
    """

    dry_run: bool = True
    tenant: str
    kind: str
    value: str
    mode: str
    matches: dict[str, int]
    looked_at: dict[str, int]
    unread: int
    complete: bool
    sample: list[dict[str, Any]]


class EntrySaid(Said):
    """One answer as both layers have it.

    Attributes:
        entries: the exact one, then its semantic rows; each with what purges say of it.
        question: the last turn that was asked; only when asked for, and where a row has it.
        answer: only when asked for.
    """

    tenant: str
    id: str
    entries: list[dict[str, Any]]
    question: str | None = None
    answer: list[dict[str, Any]] | None = None


def shown(row: PurgeRow) -> PurgeSaid:
    """A row of the log as the API tells it: of somebody who was erased, not even their digest."""
    members = int(row.value.partition(":")[0]) if row.kind == "meaning" else None
    kind = _SHOWN_KINDS.get(row.kind, row.kind)
    said = {name: getattr(row, name) for name in ("seq", "value", "mode", "actor", "reason", "at")}
    if row.kind in _OF_SOMEBODY and is_digest(row.value):
        said["value"] = ERASED
    return PurgeSaid(tenant=row.tenant_id, kind=kind, members=members, **said)
