"""The ledger: sums of what answers cost and saved, and which batch of each worker was added last."""

import sqlalchemy as sa
from alembic import op

revision = "ledger"
down_revision = "admin_tokens"
branch_labels = None
depends_on = None

FIGURES = (
    *("requests", "errors", "untold", "prompt_tokens", "completion_tokens"),
    *("latency_us", "saved_us", "saved_pico", "unpriced"),
    *("calls", "calls_untold", "calls_unpriced", "call_us"),
    *("fresh_tokens", "device_tokens", "ram_tokens", "disk_tokens"),
    *("read_tokens", "write_5m_tokens", "write_1h_tokens", "output_tokens"),
    *("fresh_pico", "read_pico", "write_pico", "output_pico"),
    *("device_saved_pico", "ram_saved_pico", "disk_saved_pico", "read_saved_pico", "write_extra_pico"),
)


def upgrade() -> None:
    op.create_table(
        "ledger",
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("layer", sa.String(16), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in FIGURES),
        sa.PrimaryKeyConstraint("day", "tenant_id", "route", "provider", "model", "layer", name="pk_ledger"),
    )
    op.create_table(
        "ledger_flushes",
        sa.Column("worker", sa.String(32), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("worker", name="pk_ledger_flushes"),
    )


def downgrade() -> None:
    op.drop_table("ledger_flushes")
    op.drop_table("ledger")
