"""A gateway in mode `semantic`, over a small service that compares words."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.tables import SEMANTIC_ROWS
from gateway.settings import ModelSettings
from tests.gateway.http.wire import Pair, Reply, ask, measured, said
from tests.gateway.stand import Stand, running, settings_for
from tests.servers.nominator import Nominator, nominating
from tests.servers.redis import RedisServer
from tests.upstream import Upstream

QUESTION = "How do I reset my password?"
PARAPHRASE = "How can I change the password?"
MODELS = (
    ModelSettings(name="m", provider="up"),
    ModelSettings(name="plain", provider="up", mode="exact"),
    ModelSettings(name="watched", provider="up", mode="observe"),
    ModelSettings(name="brief", provider="up", ttl_s=1),
)


@dataclass(slots=True)
class Meaning:
    """The stand and the service beside it."""

    it: Stand
    service: Nominator

    async def ask(self, words: str, *headers: Pair, **fields: Any) -> Reply:
        """One question; fields of the body besides it. `key` is the API key."""
        key = fields.pop("key", None)
        body = said(words, **fields)
        return await (ask(self.it, body, *headers) if key is None else ask(self.it, body, *headers, key=key))

    async def settled(self) -> None:
        """Returns when the rows of all answers so far are written."""
        gateway = self.it.app.gateway
        assert gateway is not None
        assert gateway.meaning is not None
        await gateway.meaning.writer.drained()

    async def taught(self, words: str = QUESTION, *headers: Pair, **fields: Any) -> Reply:
        """One question whose answer has become a row."""
        reply = await self.ask(words, *headers, **fields)
        await self.settled()
        return reply

    async def rows(self) -> list[Any]:
        """All rows."""

        async def work(connection: AsyncConnection) -> list[Any]:
            return list(await connection.execute(select(SEMANTIC_ROWS).order_by("row")))

        return await self.it.database.read(work)

    async def until_rows(self, count: int, within_s: float = 5.0) -> None:
        """Returns when there are so many rows."""
        async with asyncio.timeout(within_s):
            while len(await self.rows()) < count:  # noqa: ASYNC110  (the table has no event)
                await asyncio.sleep(0.02)

    async def change(self, statement: str, **values: Any) -> None:
        """One SQL statement behind everybody's back."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(text(statement), values)

        await self.it.database.write(work)

    async def counted(self, name: str, **labels: str) -> float:
        """One figure of the metrics."""
        return await measured(self.it, name, **labels)


@contextlib.asynccontextmanager
async def meaning(home: Path, redis: RedisServer, **changes: Any) -> AsyncIterator[Meaning]:
    """A gateway and its service in this loop, without guards; `changes` replace top-level settings."""
    with tempfile.TemporaryDirectory(prefix="lam-sem-") as folder:
        path = Path(folder) / "semantic.sock"
        elsewhere: SecretStr | None = changes.get("database_url")
        database_url = elsewhere.get_secret_value() if elsewhere else f"sqlite:///{home / 'lamina.db'}"
        settings: dict[str, Any] = {
            "cache": {"mode": "semantic", "stale_s": 60},
            "semantic_url": f"unix://{path}",
            "models": MODELS,
            "guards": {"enabled": False},
            **changes,
        }
        fixed = {"rule": "fixed", "min_probability": 0.6, "deadline_ms": 3000}
        settings["semantic"] = {**fixed, **changes.get("semantic", {})}
        async with nominating(path, database_url) as service, Upstream() as upstream:
            made = settings_for(home, upstream, redis.url, **settings)
            async with running(made, upstream) as it:
                yield Meaning(it, service)
