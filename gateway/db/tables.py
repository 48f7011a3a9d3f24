"""The tables, as both databases have them; `migrations/` builds them and a test keeps the two equal."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TENANTS = Table(
    "tenants",
    METADATA,
    Column("id", String(32), nullable=False),
    Column("name", String(63), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("disabled_at", Double),
    Column("auth_seq", BigInteger, nullable=False),
    Column("purge_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("name"),
    CheckConstraint("auth_seq >= 0 AND purge_seq >= 0", name="seqs"),
)

API_KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", String(32), nullable=False),
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False, index=True),
    Column("digest", LargeBinary(32), nullable=False),
    Column("label", Text, nullable=False),
    Column("hint", String(4), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("digest"),
    CheckConstraint("length(digest) = 32", name="digest"),
)

PURGE_LOG = Table(
    "purge_log",
    METADATA,
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("value", Text, nullable=False),
    Column("mode", String(4), nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("tenant_id", "seq"),
    CheckConstraint("seq > 0", name="seq"),
    CheckConstraint("kind <> ''", name="kind"),
    CheckConstraint("mode IN ('hard', 'soft')", name="mode"),
    Index("ix_purge_log_at", "at", "tenant_id", "seq"),
)

PURGE_MEMBERS = Table(
    "purge_members",
    METADATA,
    Column("tenant_id", String(32), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("key", LargeBinary(32), nullable=False),
    PrimaryKeyConstraint("tenant_id", "seq", "key"),
    ForeignKeyConstraint(["tenant_id", "seq"], ["purge_log.tenant_id", "purge_log.seq"]),
    CheckConstraint("length(key) = 32", name="key"),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), autoincrement=True, nullable=False),
    Column("at", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", String(32), nullable=False),
    Column("tenant_id", String(32), index=True),
    Column("target", Text, nullable=False),
    Column("detail", Text, nullable=False),
    PrimaryKeyConstraint("id"),
)

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", String(32), nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
    CheckConstraint("value >= 0", name="value"),
)

DATA_KEYS = Table(
    "data_keys",
    METADATA,
    Column("id", String(32), nullable=False),
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False, index=True),
    Column("wrapped", LargeBinary),
    Column("master_id", String(16), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("retired_at", Double),
    Column("destroyed_at", Double),
    PrimaryKeyConstraint("id"),
    CheckConstraint("(wrapped IS NULL) = (destroyed_at IS NOT NULL)", name="destroyed"),
)

SEMANTIC_ROWS = Table(
    "semantic_rows",
    METADATA,
    Column("row", BigInteger, nullable=False, autoincrement=False),
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False),
    Column("family", LargeBinary(32), nullable=False),
    Column("partition", LargeBinary(32), nullable=False),
    Column("asked", LargeBinary(32), nullable=False),
    Column("question", LargeBinary, nullable=False),
    Column("key", LargeBinary(32), nullable=False, index=True),
    Column("route", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("changed", BigInteger, nullable=False),
    PrimaryKeyConstraint("row"),
    UniqueConstraint("changed"),
    UniqueConstraint("partition", "asked"),
    CheckConstraint("state IN ('live', 'quarantined')", name="state"),
    Index("ix_semantic_rows_tenant_id", "tenant_id", "created_at"),
)

SEMANTIC_DELETIONS = Table(
    "semantic_deletions",
    METADATA,
    Column("changed", BigInteger, nullable=False, autoincrement=False),
    Column("row", BigInteger, nullable=False),
    PrimaryKeyConstraint("changed"),
)

SEMANTIC_VECTORS = Table(
    "semantic_vectors",
    METADATA,
    Column("row", BigInteger, nullable=False, autoincrement=False),
    Column("models", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("row", "models"),
)

BUDGET_MARKS = Table(
    "budget_marks",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), autoincrement=True, nullable=False),
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False),
    Column("route", Text, nullable=False),
    Column("row", BigInteger),
    Column("score", Double, nullable=False),
    Column("right", Boolean, nullable=False),
    Column("how", String(16), nullable=False),
    Column("models", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("share", Double),
    PrimaryKeyConstraint("id"),
    CheckConstraint("how IN ('audit', 'feedback', 'warm')", name="how"),
    Index("ix_budget_marks_tenant_id", "tenant_id", "route", "id"),
)

BUDGET_STATE = Table(
    "budget_state",
    METADATA,
    Column("tenant_id", String(32), ForeignKey("tenants.id"), nullable=False),
    Column("route", Text, nullable=False),
    Column("models", Text, nullable=False),
    Column("caution", String(16), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("since", Double, nullable=False),
    Column("mark", BigInteger, nullable=False),
    Column("asked", Double, nullable=False),
    Column("would", Double, nullable=False),
    Column("served", Double, nullable=False),
    PrimaryKeyConstraint("tenant_id", "route", "models"),
    CheckConstraint("caution IN ('normal', 'tightened', 'suspended')", name="caution"),
)

OVERRIDES = Table(
    "overrides",
    METADATA,
    Column("scope", String(32), nullable=False),
    Column("limits", Text, nullable=False),
    Column("modes", Text, nullable=False),
    PrimaryKeyConstraint("scope"),
)

ADMIN_TOKENS = Table(
    "admin_tokens",
    METADATA,
    Column("id", String(32), nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("label", Text, nullable=False),
    Column("hint", String(4), nullable=False),
    Column("role", String(16), nullable=False),
    Column("tenants", Text),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("digest"),
    CheckConstraint("length(digest) = 32", name="digest"),
    CheckConstraint("role IN ('reader', 'operator', 'admin')", name="role"),
)

ADMIN_ONCE = Table(
    "admin_once",
    METADATA,
    Column("actor", String(64), nullable=False),
    Column("key", LargeBinary(32), nullable=False),
    Column("request", LargeBinary(32), nullable=False),
    Column("at", Double, nullable=False, index=True),
    Column("status", Integer),
    Column("sealed", LargeBinary),
    PrimaryKeyConstraint("actor", "key"),
)
