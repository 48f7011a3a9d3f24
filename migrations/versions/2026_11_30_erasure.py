"""What was written to the log and the audit may be blanked for an erasure, but not changed."""

from alembic import op

revision = "erasure"
down_revision = "purge_members"
branch_labels = None
depends_on = None

_SAME_AUDIT = ("id", "at", "actor", "action", "tenant_id", "target")
_SAME_LOG = ("tenant_id", "seq", "mode", "actor", "at")
_BLANK_AUDIT = "NEW.detail = '{}' AND OLD.action NOT LIKE 'erasure.%'"
_BLANK_LOG = (
    "NEW.reason = '' AND ((NEW.kind = OLD.kind AND (NEW.value = OLD.value OR NEW.value LIKE '#%'))"
    " OR (NEW.kind = 'all' AND NEW.value = ''))"
)
"""A row of the log may lose its reason, may name a person by a digest, and may come to purge everything."""

_BLANKS = (("audit", _SAME_AUDIT, _BLANK_AUDIT), ("purge_log", _SAME_LOG, _BLANK_LOG))


def upgrade() -> None:
    for table, same, blank in _BLANKS:
        _allow_blanks(table, same, blank)


def _allow_blanks(table: str, same: tuple[str, ...], blank: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        unchanged = " AND ".join(f"NEW.{column} IS OLD.{column}" for column in same)
        op.execute(f"DROP TRIGGER {table}_no_update")
        op.execute(
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} WHEN NOT ({unchanged} AND {blank}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
        return
    unchanged = " AND ".join(f"NEW.{column} IS NOT DISTINCT FROM OLD.{column}" for column in same)
    op.execute(f"DROP TRIGGER {table}_no_change ON {table}")
    op.execute(
        f"CREATE TRIGGER {table}_no_change BEFORE DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION lamina_refuse('{table} is append-only')"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} FOR EACH ROW "
        f"WHEN (NOT ({unchanged} AND {blank})) "
        f"EXECUTE FUNCTION lamina_refuse('{table} is append-only')"
    )


def downgrade() -> None:
    for table, _, _ in _BLANKS:
        _forbid_blanks(table)


def _forbid_blanks(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"DROP TRIGGER {table}_no_update")
        op.execute(
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
        return
    op.execute(f"DROP TRIGGER {table}_no_update ON {table}")
    op.execute(f"DROP TRIGGER {table}_no_change ON {table}")
    op.execute(
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION lamina_refuse('{table} is append-only')"
    )
