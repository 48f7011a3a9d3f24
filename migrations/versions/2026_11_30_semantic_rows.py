"""Rows of the semantic layer, the sequence of their changes, their vectors, and what the error budget has seen."""

import sqlalchemy as sa
from alembic import op

revision = "semantic_rows"
down_revision = "tenants_keys_purge_log_audit"
branch_labels = None
depends_on = None

_COUNTERS = ("semantic", "semantic_pruned")


def upgrade() -> None:
    _create_counters()
    _create_rows()
    _create_deletions_and_vectors()
    _create_budget_marks()


def _create_counters() -> None:
    counters = op.create_table(
        "counters",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
        sa.CheckConstraint("value >= 0", name=op.f("ck_counters_value")),
    )
    op.bulk_insert(counters, [{"name": name, "value": 0} for name in _COUNTERS])


def _create_rows() -> None:
    op.create_table(
        "semantic_rows",
        sa.Column("row", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("family", sa.LargeBinary(32), nullable=False),
        sa.Column("partition", sa.LargeBinary(32), nullable=False),
        sa.Column("asked", sa.LargeBinary(32), nullable=False),
        sa.Column("question", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("as_of", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("row", name="pk_semantic_rows"),
        sa.UniqueConstraint("changed", name="uq_semantic_rows_changed"),
        sa.UniqueConstraint("partition", "asked", name="uq_semantic_rows_partition"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_semantic_rows_tenant_id"),
        sa.CheckConstraint("state IN ('live', 'quarantined')", name=op.f("ck_semantic_rows_state")),
    )
    op.create_index("ix_semantic_rows_expires_at", "semantic_rows", ["expires_at"])
    op.create_index("ix_semantic_rows_tenant_id", "semantic_rows", ["tenant_id", "created_at"])


def _create_deletions_and_vectors() -> None:
    op.create_table(
        "semantic_deletions",
        sa.Column("changed", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("row", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("changed", name="pk_semantic_deletions"),
    )
    op.create_table(
        "semantic_vectors",
        sa.Column("row", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("models", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("row", "models", name="pk_semantic_vectors"),
    )


def _create_budget_marks() -> None:
    op.create_table(
        "budget_marks",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("row", sa.BigInteger),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("right", sa.Boolean, nullable=False),
        sa.Column("how", sa.String(16), nullable=False),
        sa.Column("models", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_budget_marks"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_budget_marks_tenant_id"),
        sa.CheckConstraint("how IN ('audit', 'feedback', 'warm')", name=op.f("ck_budget_marks_how")),
    )
    op.create_index("ix_budget_marks_tenant_id", "budget_marks", ["tenant_id", "route", "id"])


def downgrade() -> None:
    for table in ("budget_marks", "semantic_vectors", "semantic_deletions", "semantic_rows", "counters"):
        op.drop_table(table)
