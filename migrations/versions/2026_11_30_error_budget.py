"""The error budget: how likely each audit was to be drawn, and where the guard of a tenant and route stands."""

import sqlalchemy as sa
from alembic import op

revision = "error_budget"
down_revision = "semantic_rows"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("budget_marks", sa.Column("share", sa.Double))
    op.create_index("ix_semantic_rows_key", "semantic_rows", ["key"])
    op.create_table(
        "budget_state",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("models", sa.Text, nullable=False),
        sa.Column("caution", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("mark", sa.BigInteger, nullable=False),
        sa.Column("asked", sa.Double, nullable=False),
        sa.Column("would", sa.Double, nullable=False),
        sa.Column("served", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "route", "models", name="pk_budget_state"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_budget_state_tenant_id"),
        sa.CheckConstraint(
            "caution IN ('normal', 'tightened', 'suspended')", name=op.f("ck_budget_state_caution")
        ),
    )


def downgrade() -> None:
    op.drop_table("budget_state")
    op.drop_index("ix_semantic_rows_key", "semantic_rows")
    op.drop_column("budget_marks", "share")
