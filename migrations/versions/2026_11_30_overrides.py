"""What an operator sets over the settings while the set runs: limits of tenants, modes of routes."""

import sqlalchemy as sa
from alembic import op

revision = "overrides"
down_revision = "data_keys"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "overrides",
        sa.Column("scope", sa.String(32), nullable=False),
        sa.Column("limits", sa.Text, nullable=False),
        sa.Column("modes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_overrides"),
    )


def downgrade() -> None:
    op.drop_table("overrides")
