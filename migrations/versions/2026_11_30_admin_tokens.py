"""Administrators' tokens, and the idempotency keys of their changes."""

import sqlalchemy as sa
from alembic import op

revision = "admin_tokens"
down_revision = "error_budget"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "admin_tokens",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("hint", sa.String(4), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("tenants", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_admin_tokens"),
        sa.UniqueConstraint("digest", name="uq_admin_tokens_digest"),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_admin_tokens_digest")),
        sa.CheckConstraint("role IN ('reader', 'operator', 'admin')", name=op.f("ck_admin_tokens_role")),
    )
    op.create_table(
        "admin_once",
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("request", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("sealed", sa.LargeBinary),
        sa.PrimaryKeyConstraint("actor", "key", name="pk_admin_once"),
    )
    op.create_index("ix_admin_once_at", "admin_once", ["at"])


def downgrade() -> None:
    op.drop_table("admin_once")
    op.drop_table("admin_tokens")
