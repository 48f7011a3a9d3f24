"""A small semantic service for tests: speaks the wire, reads the real rows, and compares words instead of meaning.

It can also misbehave: wait, lie, answer nonsense. `python -m tests.servers.nominator` runs it as a process.
"""

import argparse
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database
from gateway.db.tables import SEMANTIC_ROWS
from policies.nomination import Ask, Candidate, Near, NearRows, Nominated, Pairs, Settle, Settled, Verdicts
from policies.questions import Question

_FILLERS = frozenset(["a", "an", "the", "do", "does", "can", "could", "please", "i", "my", "to", "of", "how"])
_SAME = {"change": "reset", "renew": "reset", "passphrase": "password", "passwords": "password"}
_ROWS = SEMANTIC_ROWS.c
_STARTS_WITHIN_S = 60.0


def likeness(one: str, other: str) -> float:
    """Share of common words, 0 to 1."""
    if one == other:
        return 1.0
    left, right = _words(one), _words(other)
    return len(left & right) / max(1, len(left | right)) * 0.999


def _words(text: str) -> set[str]:
    return {_SAME.get(word, word) for word in re.findall(r"\w+", text.lower())} - _FILLERS


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


@dataclass
class Nominator:
    """The ASGI app.

    Attributes:
        wait_s: before each answer.
        raw: sent as it is in place of a nomination.
        status: of nominations.
        near_status: of what is near.
        told: candidates to return whatever is asked.
        asks: what was asked.
    """

    database: Database
    wait_s: float = 0.0
    raw: bytes | None = None
    status: int = 200
    near_status: int = 200
    told: tuple[Candidate, ...] | None = None
    asks: list[Ask] = field(default_factory=list)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = 200, b"{}"
        if scope["path"] == "/v1/nominate":
            status, answer = self.status, await self._nominate(msgspec.msgpack.decode(body, type=Ask))
        elif scope["path"] == "/v1/verify":
            pairs = msgspec.msgpack.decode(body, type=Pairs)
            answer = msgspec.msgpack.encode(Verdicts(tuple((None, likeness(*pair)) for pair in pairs.pairs)))
        elif scope["path"] == "/v1/settle":
            asked = msgspec.msgpack.decode(body, type=Settle)
            answer = msgspec.msgpack.encode(Settled(asked.change, held=0, rows=0, snapshot=True))
        elif scope["path"] == "/v1/near":
            status, answer = self.near_status, await self._near(msgspec.msgpack.decode(body, type=Near))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    async def _nominate(self, ask: Ask) -> bytes:
        self.asks.append(ask)
        await asyncio.sleep(self.wait_s)
        if self.raw is not None:
            return self.raw
        found = self.told if self.told is not None else await self._candidates(ask)
        return msgspec.msgpack.encode(Nominated(found[: ask.limit], 0, "words-1"))

    async def _near(self, near: Near) -> bytes:
        query = select(_ROWS.row, _ROWS.question).where(_ROWS.tenant_id == near.tenant_id, _ROWS.state == "live")

        async def work(connection: AsyncConnection) -> list[tuple[int, bytes]]:
            return [(*row,) for row in await connection.execute(query)]

        rows = await self.database.read(work)
        texts = {row: msgspec.msgpack.decode(raw, type=Question).text for row, raw in rows}
        asked = near.text if near.row is None else texts.get(near.row)
        found = [(row, likeness(text, asked or "")) for row, text in texts.items()]
        close = sorted((one for one in found if one[1] >= near.similarity), key=lambda one: -one[1])
        return msgspec.msgpack.encode(NearRows(tuple(close[: near.limit])))

    async def _candidates(self, ask: Ask) -> tuple[Candidate, ...]:
        query = select(_ROWS.row, _ROWS.partition, _ROWS.question).where(
            or_(_ROWS.partition == ask.partition, _ROWS.family == ask.family), _ROWS.state == "live"
        )

        async def work(connection: AsyncConnection) -> list[tuple[int, bytes, bytes]]:
            return [(*row,) for row in await connection.execute(query)]

        found = []
        for row, partition, raw in await self.database.read(work):
            question = msgspec.msgpack.decode(raw, type=Question)
            how = "turn" if partition == ask.partition else "conversation"
            if len(question.turns) != len(ask.question.turns):
                continue
            turns = zip(question.turns, ask.question.turns, strict=True)
            score = min(likeness(stored, asked) for (_, stored), (_, asked) in turns)
            if _numbers(question.text) != _numbers(ask.question.text):
                found.append(Candidate(row, score, "number", None, how))
            else:
                found.append(Candidate(row, score, None, score, how))
        return tuple(sorted(found, key=lambda one: (one.veto is not None, -one.similarity)))


@contextlib.asynccontextmanager
async def nominating(socket_path: Path, database_url: str) -> AsyncIterator[Nominator]:
    """Serves in this loop until the block ends; the database must have its tables by the first nomination."""
    app = Nominator(Database.open(database_url, deadline_s=20))
    server = uvicorn.Server(uvicorn.Config(app, uds=str(socket_path), log_config=None, lifespan="off"))
    server.install_signal_handlers = lambda: None  # type: ignore[method-assign, attr-defined]
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.005)
        if serving.done():
            serving.result()
    try:
        yield app
    finally:
        server.should_exit = True
        server.force_exit = True
        await serving
        await app.database.close()


class NominatorProcess:
    """The same as a process of its own, to be killed and frozen."""

    def __init__(self, socket_path: Path, database_url: str) -> None:
        self._socket = socket_path
        self._command = [sys.executable, "-m", "tests.servers.nominator", "--socket", str(socket_path)]
        self._command += ["--database-url", database_url]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        self._socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, cwd=Path(__file__).parents[2])
        due_s = time.monotonic() + _STARTS_WITHIN_S
        while not self._socket.exists():
            assert time.monotonic() < due_s
            time.sleep(0.02)

    def send(self, sent: signal.Signals) -> None:
        """A signal."""
        assert self._process is not None
        os.kill(self._process.pid, sent)

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def nominator_process(socket_path: Path, database_url: str) -> Iterator[NominatorProcess]:
    """One that is not started yet; nothing is left of it after the block."""
    process = NominatorProcess(socket_path, database_url)
    try:
        yield process
    finally:
        process.kill()


def main() -> None:
    """Takes what the supervisor gives the real service, and serves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--database-url")
    parser.add_argument("--database-url-file", type=Path)
    options, _ = parser.parse_known_args()
    url = options.database_url or options.database_url_file.read_text()
    app = Nominator(Database.open(url, deadline_s=20))
    uvicorn.run(app, uds=str(options.socket), log_config=None, lifespan="off")


if __name__ == "__main__":
    main()
