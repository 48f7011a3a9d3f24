"""Purges of kinds that an older version does not know, and by meaning with the keys that they take."""

import sqlalchemy as sa
from alembic import op

revision = "purge_members"
down_revision = "overrides"
branch_labels = None
depends_on = None

_OLD_KINDS = ("all", "tag", "key", "model", "user", "version")


def upgrade() -> None:
    _check_kinds("kind <> ''")
    op.create_index("ix_purge_log_at", "purge_log", ["at", "tenant_id", "seq"])
    op.create_table(
        "purge_members",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "seq", "key", name="pk_purge_members"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "seq"], ["purge_log.tenant_id", "purge_log.seq"], name="fk_purge_members_tenant_id"
        ),
        sa.CheckConstraint("length(key) = 32", name=op.f("ck_purge_members_key")),
    )
    _forbid_changes("purge_members")


def _check_kinds(condition: str) -> None:
    """Replaces the check on `kind`; SQLite has no way but a new table."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(op.f("ck_purge_log_kind"), "purge_log", type_="check")
        op.create_check_constraint(op.f("ck_purge_log_kind"), "purge_log", condition)
        return
    op.create_table(
        "purge_log_new",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("mode", sa.String(4), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "seq", name="pk_purge_log"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_purge_log_tenant_id"),
        sa.CheckConstraint("seq > 0", name=op.f("ck_purge_log_seq")),
        sa.CheckConstraint(condition, name=op.f("ck_purge_log_kind")),
        sa.CheckConstraint("mode IN ('hard', 'soft')", name=op.f("ck_purge_log_mode")),
    )
    op.execute(
        "INSERT INTO purge_log_new SELECT tenant_id, seq, kind, value, mode, actor, reason, at FROM purge_log"
    )
    op.drop_table("purge_log")
    op.rename_table("purge_log_new", "purge_log")
    _forbid_changes("purge_log")


def _forbid_changes(table: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION lamina_refuse('{table} is append-only')"
        )
        return
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )


def downgrade() -> None:
    """Kinds that the older version cannot write become a purge of everything, as it would read them."""
    op.drop_table("purge_members")
    op.drop_index("ix_purge_log_at", "purge_log")
    log = sa.table("purge_log", sa.column("kind"), sa.column("value"))
    widen = sa.update(log).where(log.c.kind.not_in(_OLD_KINDS)).values(kind="all", value="")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE purge_log DISABLE TRIGGER purge_log_no_change")
        op.execute(widen)
        op.execute("ALTER TABLE purge_log ENABLE TRIGGER purge_log_no_change")
    else:
        op.execute("DROP TRIGGER purge_log_no_update")
        op.execute(widen)
    _check_kinds(f"kind IN {_OLD_KINDS}")
