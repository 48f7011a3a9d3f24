"""The rows as values: frozen, without secrets, free of SQLAlchemy. Times are seconds since the epoch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from policies.limits import NO_LIMITS, Limits

PurgeKind = Literal[
    "all", "tag", "key", "model", "user", "version", "session", "route", "age", "versions", "meaning", "print"
]
PurgeMode = Literal["hard", "soft"]
PURGE_KINDS: tuple[PurgeKind, ...] = get_args(PurgeKind)
PURGE_MODES: tuple[PurgeMode, ...] = get_args(PurgeMode)
TokenRole = Literal["reader", "operator", "admin"]
TOKEN_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)
"""Each may do what those before it may."""

MODES = ("off", "observe", "exact", "semantic")
"""As gateway.settings_tables.Mode."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What an operator has set over the settings.

    Attributes:
        modes: by name of the route.
    """

    limits: Limits = NO_LIMITS
    modes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, limits: str | None, modes: str | None) -> Self:
        """From the database's JSON; nothing for None."""
        bounds = json.loads(limits) if limits else {}
        return cls(
            Limits(**bounds) if any(value is not None for value in bounds.values()) else NO_LIMITS,
            json.loads(modes) if modes else {},
        )


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without the key itself.

    Attributes:
        digest: SHA-256 of the key, 32 bytes.
        hint: the key's last four characters, to recognise it by.
    """

    key_id: str
    tenant_id: str
    digest: bytes = field(repr=False)
    label: str
    hint: str
    created_at: float
    revoked_at: float | None

    @property
    def revoked(self) -> bool:
        """Says whether the key no longer opens anything."""
        return self.revoked_at is not None


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """An administrator's token without the token itself.

    Attributes:
        digest: SHA-256 of the token, 32 bytes.
        hint: the token's last four characters, to recognise it by.
        role: what its holder may do.
        tenants: ids of the tenants it is bound to; None for every one.
        expires_at: when it stops to open anything; None for never.
    """

    token_id: str
    digest: bytes = field(repr=False)
    label: str
    hint: str
    role: TokenRole
    tenants: frozenset[str] | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None

    def opens(self, now_s: float) -> bool:
        """Says whether it is good at this time."""
        return self.revoked_at is None and (self.expires_at is None or now_s < self.expires_at)


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """A tenant as listed, without its keys."""

    tenant_id: str
    name: str
    created_at: float
    disabled_at: float | None
    auth_seq: int
    purge_seq: int


@dataclass(frozen=True, slots=True)
class TenantState:
    """All that authentication needs of one tenant, read in one statement, so its parts belong together.

    Attributes:
        auth_seq: grows by one with each change of keys or of `disabled`; never falls.
        purge_seq: the number of the tenant's last purge, 0 before the first; never falls.
        keys: every key, the revoked ones too, oldest first.
        overrides: the tenant's limits, and its modes over those that are set for every tenant.
    """

    tenant_id: str
    name: str
    disabled: bool
    auth_seq: int
    purge_seq: int
    keys: tuple[KeyRecord, ...]
    overrides: Overrides = Overrides()


@dataclass(frozen=True, slots=True)
class DataKeyRecord:
    """A tenant's data key as the database holds it.

    Attributes:
        key_id: `D` and 16 hexadecimal digits.
        wrapped: the key, encrypted by a master key; None once it is destroyed.
        master_id: names that master key.
        retired_at: since when nothing new is sealed under it; None for the current one.
    """

    key_id: str
    tenant_id: str
    wrapped: bytes | None = field(repr=False)
    master_id: str
    created_at: float
    retired_at: float | None = None
    destroyed_at: float | None = None


@dataclass(frozen=True, slots=True)
class PurgeRow:
    """One line of a tenant's purge log.

    Attributes:
        seq: 1, 2, 3 … within the tenant, without gaps.
        kind, value: see policies.purge_scopes; the value is empty for `all`.
        members: of a purge by meaning, the keys that it takes.
    """

    tenant_id: str
    seq: int
    kind: PurgeKind
    value: str
    mode: PurgeMode
    actor: str
    reason: str
    at: float
    members: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class NewPurge:
    """A purge to be appended; its parts are those of PurgeRow."""

    tenant_id: str
    kind: PurgeKind
    value: str
    mode: PurgeMode
    actor: str
    reason: str
    members: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Appended:
    """Purges of one transaction.

    Attributes:
        rows: in the order in which they were asked for.
        heads: (auth_seq, purge_seq) of each tenant after it.
    """

    rows: tuple[PurgeRow, ...]
    heads: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who changed what, and when.

    Attributes:
        target: the id of what was changed.
        detail: a JSON object as text, without secrets.
    """

    audit_id: int
    at: float
    actor: str
    action: str
    tenant_id: str | None
    target: str
    detail: str


@dataclass(frozen=True, slots=True)
class NewRow:
    """A question and its answer, to be stored for the semantic layer.

    Attributes:
        family, partition, question: see policies.questions; the question as MessagePack.
        asked: SHA-256 of the question's last turn; one row per partition and `asked`.
        key: digest of the exact key that the sealed entry is of.
        route: name of the route.
        sealed: the entry, as gateway.layers.entry seals it.
        as_of: the entry's.
        created_at, expires_at: seconds since the epoch.
    """

    tenant_id: str
    family: bytes
    partition: bytes
    asked: bytes
    question: bytes = field(repr=False)
    key: bytes
    route: str
    sealed: bytes = field(repr=False)
    as_of: int
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class SemanticRow:
    """A stored row, as far as serving it needs.

    Attributes:
        state: `live`, or `quarantined` after feedback.
    """

    row: int
    tenant_id: str
    family: bytes
    partition: bytes
    question: bytes = field(repr=False)
    key: bytes
    route: str
    sealed: bytes = field(repr=False)
    state: str
