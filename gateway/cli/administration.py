"""What the administrative commands share: the records opened, a change announced, an outcome shown."""

import asyncio
import json
import os
import pwd
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from gateway.db import Database, PurgeRepository, RecordError, TenantRepository
from gateway.errors import SettingsError, StoreUnavailable
from gateway.home import with_home_services
from gateway.invalidation.announce import RedisAnnouncer
from gateway.invalidation.contract import Announcer
from gateway.invalidation.telling import Records, each_told, tell
from gateway.settings import Settings, settings_from_environment

T = TypeVar("T")

UNANNOUNCED = (
    "the change is stored, but Redis did not confirm it: each worker follows when it next reads the database; "
    "give the command again when Redis answers to be sure"
)
_PIPE_COLUMNS = 120
_HARMLESS = "\n\t\u200d"


@dataclass(frozen=True, slots=True)
class Office:
    """Where a change is made: the records, who makes it, when, and who is told."""

    database: Database
    announcer: Announcer
    actor: str
    now_s: float

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        """Tells every worker; false when Redis did not confirm."""
        try:
            records = Records(TenantRepository(self.database), PurgeRepository(self.database))
            await tell(self.announcer, records, tenant_id, (auth_seq, purge_seq), self.now_s)
        except StoreUnavailable:
            return False
        return True

    async def announce_all(self, heads: Mapping[str, tuple[int, int]]) -> bool:
        """As `announce`, of many tenants; stops at the first that Redis does not confirm."""
        return await each_told(self.announce, heads)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command has to say.

    Attributes:
        data: printed by `--json`.
        shown: printed otherwise, on standard output.
        note: printed otherwise, on standard error.
        announced: false makes the command say so and exit 1; None when there was nothing to announce.
    """

    data: Mapping[str, Any]
    shown: RenderableType
    note: str | None = None
    announced: bool | None = None


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def administer(work: Callable[[Office], Awaitable[T]], *, advice: str = "") -> T:
    """Opens the records that the settings name, brings their tables up to date, and runs `work` on them.

    Args:
        work: what to do.
        advice: what to try when `work` finds no such tenant or key.

    Raises:
        LaminaError: one line for the operator.
    """
    settings = settings_from_environment()
    try:
        return asyncio.run(_open_and(work, settings))
    except RecordError as error:
        if error.reason != "not_found" or not advice:
            raise
        raise RecordError(error.reason, f"{error}; {advice}") from None


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Prints an outcome; exits 1 when the change was stored but not announced."""
    if as_json:
        told = {} if outcome.announced is None else {"announced": outcome.announced}
        click.echo(json.dumps({**outcome.data, **told}))
    else:
        console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False, emoji=False)
        console.print(outcome.shown, soft_wrap=isinstance(outcome.shown, str))
        if outcome.note:
            click.echo(outcome.note, err=True)
    if outcome.announced is False:
        click.echo(f"error: {UNANNOUNCED}", err=True)
        click.get_current_context().exit(1)


def table(*columns: str) -> Table:
    """Makes an empty table that reads well on a terminal and through a pipe."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def shown_time(at: float | None) -> str:
    """Writes seconds since the epoch as UTC; nothing for None."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def shown_text(text: str) -> str:
    """Writes free text so that it can neither style nor drive the terminal: control characters in escaped form."""
    return escape(plain(text, harmless=_HARMLESS))


def plain(text: str, *, harmless: str = "") -> str:
    """The text with every control character, but the harmless ones, in escaped form; by itself it is one line."""
    return "".join(
        sign if sign.isprintable() or sign in harmless else sign.encode("unicode_escape").decode() for sign in text
    )


async def _open_and(work: Callable[[Office], Awaitable[T]], settings: Settings) -> T:
    resolved = with_home_services(settings)
    if settings.database_url is None:
        try:
            resolved.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"cannot make home {resolved.home}: {error.strerror}") from None
    url = resolved.database_url.get_secret_value() if resolved.database_url else ""
    database = Database.open(url, deadline_s=settings.database_deadline_ms / 1000)
    try:
        await database.migrate()
        office = Office(database, RedisAnnouncer.from_settings(settings), _actor(), time.time())
        return await work(office)
    finally:
        await database.close()


def _actor() -> str:
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # a container may run under a number without a name
        return f"cli:{os.getuid()}"
