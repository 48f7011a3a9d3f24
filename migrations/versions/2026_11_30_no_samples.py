"""PostgreSQL's statistics keep no samples of words, names or keys: they would outlive what was erased."""

from alembic import op

revision = "no_samples"
down_revision = "versions"
branch_labels = None
depends_on = None

_NOT_SAMPLED = {
    "tenants": ("name",),
    "api_keys": ("label", "hint"),
    "purge_log": ("value", "reason"),
    "audit": ("target", "detail"),
    "data_keys": ("wrapped",),
    "semantic_rows": ("question", "sealed"),
    "semantic_vectors": ("vector",),
    "versions": ("name", "version", "depends_on", "carried", "content"),
}


def upgrade() -> None:
    _set_statistics(0)


def downgrade() -> None:
    _set_statistics(-1)


def _set_statistics(target: int) -> None:
    """How many samples ANALYZE keeps of these columns; -1 for the server's default."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, columns in _NOT_SAMPLED.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS {target}")
