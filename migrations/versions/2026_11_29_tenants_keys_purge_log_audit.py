"""Tenants, API keys, purge log and audit; the log and the audit take no changes to what was written."""

import sqlalchemy as sa
from alembic import op

revision = "tenants_keys_purge_log_audit"
down_revision = None
branch_labels = None
depends_on = None

_APPEND_ONLY = ("purge_log", "audit")


def upgrade() -> None:
    _create_tenants()
    _create_api_keys()
    _create_purge_log()
    _create_audit()
    _forbid_changes()


def _create_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("disabled_at", sa.Double),
        sa.Column("auth_seq", sa.BigInteger, nullable=False),
        sa.Column("purge_seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
        sa.CheckConstraint("auth_seq >= 0 AND purge_seq >= 0", name=op.f("ck_tenants_seqs")),
    )


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("hint", sa.String(4), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_api_keys_tenant_id"),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_api_keys_digest")),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"])


def _create_purge_log() -> None:
    op.create_table(
        "purge_log",
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
        sa.CheckConstraint(
            "kind IN ('all', 'tag', 'key', 'model', 'user', 'version')", name=op.f("ck_purge_log_kind")
        ),
        sa.CheckConstraint("mode IN ('hard', 'soft')", name=op.f("ck_purge_log_mode")),
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32)),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_tenant_id", "audit", ["tenant_id"])


def _forbid_changes() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in _APPEND_ONLY:
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        op.execute(
            "CREATE TRIGGER tenants_seqs BEFORE UPDATE ON tenants "
            "WHEN NEW.auth_seq < OLD.auth_seq OR NEW.purge_seq < OLD.purge_seq "
            "BEGIN SELECT RAISE(ABORT, 'a sequence never falls'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION lamina_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$"
    )
    for table in _APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION lamina_refuse('{table} is append-only')"
        )
    op.execute(
        "CREATE TRIGGER tenants_seqs BEFORE UPDATE ON tenants FOR EACH ROW "
        "WHEN (NEW.auth_seq < OLD.auth_seq OR NEW.purge_seq < OLD.purge_seq) "
        "EXECUTE FUNCTION lamina_refuse('a sequence never falls')"
    )


def downgrade() -> None:
    for table in ("audit", "purge_log", "api_keys", "tenants"):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION lamina_refuse()")
