"""Migrations, on a connection that the caller opened; the scripts are found beside the package."""

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection

from gateway.db.tables import METADATA
from gateway.errors import SettingsError

HEAD = "head"
BASE = "base"

_SCRIPTS = Path(__file__).resolve().parents[2] / "migrations"


def move_schema(connection: Connection, revision: str) -> None:
    """Brings the schema to `revision`: up to `head` or the one named, down to `base` or by `-1`.

    One at a time within a process: Alembic keeps the running migration in its modules.

    Raises:
        SettingsError: the database was migrated by a newer Lamina.
    """
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        (command.downgrade if revision == BASE or revision.startswith("-") else command.upgrade)(config, revision)
    except CommandError as error:
        raise SettingsError(f"this version of Lamina does not know the database's schema: {error}") from error


def schema_differences(connection: Connection) -> list[object]:
    """Lists how the live schema differs from `tables.py`; empty when they agree."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, METADATA))
