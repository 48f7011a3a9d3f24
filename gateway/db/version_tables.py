"""The table of registered versions."""

from sqlalchemy import CheckConstraint, Column, Double, PrimaryKeyConstraint, String, Table, Text

from gateway.db.tables import METADATA

VERSIONS = Table(
    "versions",
    METADATA,
    Column("scope", String(32), nullable=False),
    Column("name", String(64), nullable=False),
    Column("version", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("depends_on", Text, nullable=False),
    Column("carried", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("registered_at", Double, nullable=False),
    Column("retired_at", Double),
    PrimaryKeyConstraint("scope", "name", "version"),
    CheckConstraint("kind <> ''", name="kind"),
)
