"""The tables, as both databases have them; `migrations/` builds them and a test keeps the two equal."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
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
    CheckConstraint("kind IN ('all', 'tag', 'key', 'model', 'user', 'version')", name="kind"),
    CheckConstraint("mode IN ('hard', 'soft')", name="mode"),
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
