"""Data keys of tenants, wrapped by a master key.

Warning: the downgrade drops the keys for good; whatever was encrypted under them can never be opened again.
"""

import sqlalchemy as sa
from alembic import op

revision = "data_keys"
down_revision = "ledger"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "data_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("wrapped", sa.LargeBinary),
        sa.Column("master_id", sa.String(16), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("retired_at", sa.Double),
        sa.Column("destroyed_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_data_keys"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_data_keys_tenant_id"),
        sa.CheckConstraint("(wrapped IS NULL) = (destroyed_at IS NOT NULL)", name=op.f("ck_data_keys_destroyed")),
    )
    op.create_index("ix_data_keys_tenant_id", "data_keys", ["tenant_id"])


def downgrade() -> None:
    op.drop_table("data_keys")
