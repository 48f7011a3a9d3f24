"""The Redis of the stack lets in one user, who may do what the gateway does, and nothing that empties Redis."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.erasure.contract import Scope
from gateway.erasure.redis_store import RedisFiles
from gateway.redis_link import RedisLink, RedisTarget
from tests.deploy.processes import Stack

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Its address, and the folder of secrets."""
    with closing(Stack(tmp_path_factory.mktemp("redis"), "postgresql://nowhere/none")) as it:
        one = it.start("redis")
        it.until_healthy(one)
        yield one.address, it.secrets


def _say(address: str, *commands: tuple[str, ...]) -> list[bytes]:
    """The first line of each reply, on one connection."""
    with socket.create_connection((address, 6379), timeout=5) as connection:
        stream = connection.makefile("rb")
        replies = []
        for words in commands:
            parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            connection.sendall(f"*{len(words)}\r\n{parts}".encode())
            replies.append(stream.readline())
            if replies[-1].startswith((b"$", b"*", b"%", b"~", b">")):
                connection.settimeout(0.3)
                with contextlib.suppress(TimeoutError):
                    connection.recv(65536)
                connection.settimeout(5)
        return replies


def _sign_in(secrets: Path) -> tuple[str, ...]:
    return "AUTH", "lamina", (secrets / "redis_password").read_text().strip()


def test_strangers_may_do_nothing(redis: tuple[str, Path]) -> None:
    address, _ = redis
    wrong = ("AUTH", "lamina", "guess")
    assert all(
        reply.startswith((b"-NOAUTH", b"-WRONGPASS")) for reply in _say(address, ("PING",), wrong, ("GET", "a"))
    )


@pytest.mark.parametrize(
    "command",
    [
        ("SET", "a", "1", "EX", "9"),
        ("EVAL", "redis.call('PUBLISH', 'c', 'x') return redis.call('TIME')", "0"),
        ("PUBLISH", "c", "x"),
        ("SUBSCRIBE", "c"),
        ("SCAN", "0"),
        ("UNLINK", "a"),
        ("INFO", "server"),
        ("INFO", "persistence"),
        ("BGSAVE", "SCHEDULE"),
        ("BGREWRITEAOF",),
    ],
    ids=lambda command: str(command[0]),
)
def test_the_gateway_may_do_what_it_does(redis: tuple[str, Path], command: tuple[str, ...]) -> None:
    address, secrets = redis
    signed_in, reply = _say(address, _sign_in(secrets), command)
    assert signed_in == b"+OK\r\n"
    assert not reply.startswith(b"-"), reply


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("KEYS", "*"),
        ("SHUTDOWN",),
        ("ACL", "LIST"),
        ("SAVE",),
        ("DEBUG", "x"),
    ],
)
def test_nobody_may_empty_or_reconfigure_it(redis: tuple[str, Path], command: tuple[str, ...]) -> None:
    address, secrets = redis
    assert _say(address, _sign_in(secrets), command)[1].startswith(b"-NOPERM")


async def test_an_erasure_gets_its_files_written_anew(redis: tuple[str, Path]) -> None:
    address, secrets = redis
    password = _sign_in(secrets)[2]
    link = RedisLink(
        RedisTarget.parse(f"redis://lamina:{password}@{address}:6379/0"),
        deadline_s=5.0,
        failures=5,
        retry_s=0.5,
        on_fault=lambda _: None,
    )
    try:
        await link.call("SET", "lamina:words", "of somebody")
        await link.call("UNLINK", "lamina:words")
        proof = await RedisFiles(link).erase(Scope("T1"))
    finally:
        await link.close()
    assert (proof.removed, proof.left, proof.note) == (1, 0, "")
