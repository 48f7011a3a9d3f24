"""PostgreSQL behind TLS, its parameters meaning what they mean to libpq."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database
from gateway.errors import DatabaseUnavailable, SettingsError
from tests.gateway.db.test_faults import settle
from tests.servers.postgres import PostgresServer
from tests.servers.sqlite import PATIENCE_S
from tests.servers.tls import Behaviour, Papers, TlsFront

Front = Callable[..., TlsFront]
Opened = Callable[..., Database]
PASSWORD = "s3cret-pw"


@pytest.fixture
def front(postgres_server: PostgresServer, papers: Papers) -> Iterator[Front]:
    """Puts TLS in front of PostgreSQL."""
    path = str(postgres_server.folder / ".s.PGSQL.5432")
    with ExitStack() as opened:

        def make(context: ssl.SSLContext = papers.good, behaviour: Behaviour = "postgres") -> TlsFront:
            return opened.enter_context(TlsFront(lambda: asyncio.open_unix_connection(path), context, behaviour))

        yield make


@pytest.fixture
async def open_at(postgres_url: str) -> AsyncIterator[Opened]:
    """Opens the test's database through a front, by these parameters."""
    made: list[Database] = []
    name = urlsplit(postgres_url).path

    def opened(at: TlsFront, parameters: str, deadline_s: float = PATIENCE_S) -> Database:
        url = f"postgresql://lamina:{PASSWORD}@localhost:{at.port}{name}?{parameters}"
        made.append(Database.open(url, deadline_s=deadline_s))
        return made[-1]

    yield opened
    for database in made:
        await settle(database)
        await database.close()


async def encrypted(database: Database) -> int:
    """Asks it something."""

    async def work(connection: AsyncConnection) -> int:
        return int((await connection.execute(text("SELECT 41 + 1"))).scalar_one())

    return await database.read(work)


def verify_full(papers: Papers) -> str:
    return f"sslmode=verify-full&sslrootcert={papers.ours.ca}"


async def test_the_right_authority_is_believed(front: Front, open_at: Opened, papers: Papers) -> None:
    database = open_at(front(), verify_full(papers))
    await database.migrate()
    assert await encrypted(database) == 42


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("foreign", "a certificate of nobody who is trusted here; name its CA by sslrootcert in database_url"),
        ("wrong_name", "a certificate for other names than the one in the URL; use a name that is in it"),
        ("expired", "a certificate that is not valid now; renew it, or set the clock"),
    ],
)
async def test_who_is_not_believed_is_told_nothing(
    front: Front, open_at: Opened, papers: Papers, server: str, told: str
) -> None:
    at = front(getattr(papers, server))
    with pytest.raises(DatabaseUnavailable) as caught:
        await encrypted(open_at(at, verify_full(papers)))
    assert str(caught.value) == f"the database did not answer: it shows {told}"
    assert at.heard == b""


async def test_require_encrypts_and_believes_anybody_unless_it_is_told_whom(
    front: Front, open_at: Opened, papers: Papers
) -> None:
    at = front(papers.foreign)
    assert await encrypted(open_at(at, "sslmode=require")) == 42
    with pytest.raises(DatabaseUnavailable, match="nobody who is trusted"):
        await encrypted(open_at(at, f"sslmode=require&sslrootcert={papers.ours.ca}"))
    assert (
        await encrypted(open_at(front(papers.wrong_name), f"sslmode=verify-ca&sslrootcert={papers.ours.ca}")) == 42
    )


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_a_server_without_tls_is_refused(front: Front, open_at: Opened, papers: Papers, mode: str) -> None:
    database = open_at(front(behaviour="plain"), f"sslmode={mode}&sslrootcert={papers.ours.ca}")
    with pytest.raises(DatabaseUnavailable, match="rejected SSL upgrade") as caught:
        await encrypted(database)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("behaviour", ["silent", "mute"])
async def test_a_peer_that_stalls_in_the_handshake_costs_one_deadline(
    front: Front, open_at: Opened, papers: Papers, behaviour: Behaviour
) -> None:
    at = front(behaviour=behaviour)
    database = open_at(at, verify_full(papers), deadline_s=0.3)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable, match="did not answer"):
        await encrypted(database)
    assert 0.29 <= time.monotonic() - began < 2
    await settle(database)
    assert PASSWORD.encode() not in at.heard


async def test_a_client_shows_its_certificate(front: Front, open_at: Opened, papers: Papers) -> None:
    at, mine = front(papers.asks), papers.client
    with pytest.raises(DatabaseUnavailable):
        await encrypted(open_at(at, verify_full(papers)))
    shown = f"{verify_full(papers)}&sslcert={mine.certificate}&sslkey={mine.key}"
    assert await encrypted(open_at(at, shown)) == 42


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("sslrootcert=/absent/ca", "database_url: sslrootcert: cannot read /absent/ca: No such file or directory"),
        ("sslrootcert={empty}", "database_url: sslrootcert: {empty} holds no certificates in PEM form"),
        ("sslkey={ca}", "database_url: sslkey: give its certificate too, by database_url: sslcert"),
        (
            "sslrootcert=system",
            "database_url: sslrootcert=system: give a path, such as /etc/ssl/certs/ca-certificates.crt",
        ),
    ],
)
def test_a_bad_file_is_found_at_once(papers: Papers, tmp_path: Path, parameters: str, told: str) -> None:
    (tmp_path / "empty").write_bytes(b"")
    paths = {"empty": tmp_path / "empty", "ca": papers.ours.ca}
    with pytest.raises(SettingsError) as caught:
        Database.open(f"postgresql://u:{PASSWORD}@h/d?sslmode=verify-full&{parameters.format(**paths)}")
    assert str(caught.value) == told.format(**paths)
