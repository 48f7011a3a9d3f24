"""Registered versions of prompts, tools, knowledge bases, policies, models and adapters."""

import sqlalchemy as sa
from alembic import op

revision = "versions"
down_revision = "erasure"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "versions",
        sa.Column("scope", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("version", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("depends_on", sa.Text, nullable=False),
        sa.Column("carried", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("registered_at", sa.Double, nullable=False),
        sa.Column("retired_at", sa.Double),
        sa.PrimaryKeyConstraint("scope", "name", "version", name="pk_versions"),
        sa.CheckConstraint("kind <> ''", name="kind"),
    )


def downgrade() -> None:
    op.drop_table("versions")
