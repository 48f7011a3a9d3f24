"""The service reads PostgreSQL behind TLS by the gateway's URL, and believes nobody else."""

import asyncio
from urllib.parse import urlsplit

import pytest

from semantic.errors import StoreError
from semantic.rows.store import RowStore
from tests.semantic.rows_stand import migrated
from tests.servers.postgres import PostgresServer
from tests.servers.tls import Papers, TlsFront


@pytest.mark.parametrize(
    ("server", "told"), [("good", ""), ("foreign", "certificate"), ("wrong_name", "certificate")]
)
async def test_verify_full(postgres_server: PostgresServer, papers: Papers, server: str, told: str) -> None:
    path = str(postgres_server.folder / ".s.PGSQL.5432")
    with postgres_server.database() as plain:
        async with migrated(plain):
            with TlsFront(
                lambda: asyncio.open_unix_connection(path), getattr(papers, server), "postgres"
            ) as front:
                ours = f"sslmode=verify-full&sslrootcert={papers.ours.ca}"
                url = f"postgresql://lamina:s3cret@localhost:{front.port}{urlsplit(plain).path}?{ours}"
                store = RowStore.open(url, 20.0)
                if told:
                    with pytest.raises(StoreError, match=told) as caught:
                        await store.position()
                    assert "s3cret" not in str(caught.value)
                    assert front.heard == b""
                else:
                    assert (await store.position()).head >= 0
                await store.close()
