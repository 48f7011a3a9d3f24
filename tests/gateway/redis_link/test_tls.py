"""`rediss://` before a real Redis: who is believed, what a bad peer costs, and certificates that are renewed."""

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import uvloop

from gateway.errors import StoreUnavailable
from gateway.redis_link import Inbox, RedisLink, RedisTarget
from tests.gateway.redis_link.conftest import Connect
from tests.servers.redis import RedisServer
from tests.servers.tls import Behaviour, Papers, TlsFront

DEADLINE_S = 0.3
Front = Callable[..., TlsFront]


@pytest.fixture
def front(redis_server: RedisServer, papers: Papers) -> Iterator[Front]:
    """Puts TLS in front of Redis."""
    with ExitStack() as opened:

        def make(context: ssl.SSLContext = papers.good, behaviour: Behaviour = "tls") -> TlsFront:
            path = str(redis_server.socket_path)
            return opened.enter_context(TlsFront(lambda: asyncio.open_unix_connection(path), context, behaviour))

        yield make


def url(at: TlsFront, papers: Papers, *, host: str = "localhost", who: str = "", more: str = "") -> str:
    return f"rediss://{who}{host}:{at.port}/0?ssl_ca_certs={papers.ours.ca}{more}"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_right_authority_is_believed(connect: Connect, front: Front, papers: Papers, host: str) -> None:
    linked = connect(url(front(), papers, host=host), deadline_s=5.0)
    value = os.urandom(300_000)
    assert await linked.link.call("SET", "k", value) == b"OK"
    replies = await asyncio.gather(*(linked.link.call("GET", "k") for _ in range(20)))
    assert replies == [value] * 20
    assert linked.faults == []


async def test_the_password_goes_through_tls(connect: Connect, papers: Papers, front: Front) -> None:
    at = front()
    linked = connect(url(at, papers, who="u:s3cret@"), deadline_s=5.0)
    with pytest.raises(StoreUnavailable) as caught:
        await linked.link.call("PING")
    assert b"s3cret" in at.heard
    assert "s3cret" not in str(caught.value)
    assert linked.faults == ["connect"], "this server knows no such user; that is no fault of TLS"


@pytest.mark.parametrize(
    ("server", "reason"),
    [("foreign", "tls_untrusted"), ("wrong_name", "tls_name"), ("expired", "tls_expired"), ("asks", "tls")],
)
async def test_who_is_not_believed_is_told_nothing(
    connect: Connect, front: Front, papers: Papers, server: str, reason: str
) -> None:
    at = front(getattr(papers, server))
    linked = connect(url(at, papers, who="u:s3cret@"), deadline_s=5.0, failures=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"^{reason}$"):
            await linked.link.call("PING")
    assert linked.faults == [reason] * 2
    assert not linked.link.open
    assert at.heard == b""


async def test_the_systems_authorities_do_not_vouch_for_ours(
    connect: Connect, front: Front, papers: Papers
) -> None:
    linked = connect(f"rediss://localhost:{front().port}", deadline_s=5.0)
    with pytest.raises(StoreUnavailable, match="tls_untrusted"):
        await linked.link.call("PING")


@pytest.mark.parametrize("behaviour", ["silent", "plain"])
async def test_a_peer_that_stalls_in_the_handshake_costs_one_deadline(
    connect: Connect, front: Front, papers: Papers, behaviour: Behaviour
) -> None:
    linked = connect(url(front(behaviour=behaviour), papers), deadline_s=DEADLINE_S)
    began = time.perf_counter()
    outcomes = await asyncio.gather(*(linked.link.call("GET", "k") for _ in range(20)), return_exceptions=True)
    assert DEADLINE_S <= time.perf_counter() - began < DEADLINE_S + 1.0
    assert {str(one) for one in outcomes} == {"timeout"}
    assert linked.faults == ["timeout"]


async def test_a_plain_client_is_refused_at_once(connect: Connect, front: Front) -> None:
    linked = connect(f"redis://localhost:{front().port}", deadline_s=5.0)
    began = time.perf_counter()
    with pytest.raises(StoreUnavailable, match="connect"):
        await linked.link.call("PING")
    assert time.perf_counter() - began < 1


async def test_a_client_shows_its_certificate(connect: Connect, front: Front, papers: Papers) -> None:
    shown = f"&ssl_certfile={papers.client.certificate}&ssl_keyfile={papers.client.key}"
    linked = connect(url(front(papers.asks), papers, more=shown), deadline_s=5.0)
    assert await linked.link.call("PING") == b"PONG"


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(
    connect: Connect, front: Front, papers: Papers
) -> None:
    mine = papers.ours.sign("renewed", "client.test", ends_in_days=-1)
    shown = f"&ssl_certfile={mine.certificate}&ssl_keyfile={mine.key}"
    linked = connect(url(front(papers.asks), papers, more=shown), deadline_s=5.0, failures=99)
    with pytest.raises(StoreUnavailable, match="tls"):
        await linked.link.call("PING")
    key = mine.key.read_bytes()
    mine.key.write_bytes(b"half writ")
    with pytest.raises(StoreUnavailable, match="tls"):
        await linked.link.call("PING")
    mine.key.write_bytes(key)
    papers.ours.sign("renewed", "client.test")
    assert await linked.link.call("PING") == b"PONG"


async def test_an_inbox_listens_through_tls(
    connect: Connect, front: Front, papers: Papers, redis_server: RedisServer
) -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    target = RedisTarget.parse(url(front(), papers))
    inbox = Inbox(target, "channel", 5.0, 0.1, got.put_nowait, lambda _: None)
    listening = asyncio.create_task(inbox.run())
    try:
        async with asyncio.timeout(5):
            while not inbox.listening:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0.01)
            redis_server.command("PUBLISH", "channel", "hello")
            assert await got.get() == b"hello"
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.parametrize(
    ("server", "behaviour", "told"),
    [
        ("good", "tls", []),
        ("foreign", "tls", ["tls_untrusted"]),
        ("wrong_name", "tls", ["tls_name"]),
        ("asks", "tls", ["tls"]),
        ("good", "silent", ["timeout"]),
    ],
)
def test_the_loop_of_workers_judges_alike(
    front: Front, papers: Papers, server: str, behaviour: Behaviour, told: list[str]
) -> None:
    """It has a TLS of its own."""
    at, faults, complaints = front(getattr(papers, server), behaviour), list[str](), list[object]()

    async def work() -> bytes | None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        target = RedisTarget.parse(url(at, papers))
        deadline_s = DEADLINE_S if behaviour == "silent" else 5.0
        link = RedisLink(target, deadline_s=deadline_s, failures=5, retry_s=1.0, on_fault=faults.append)
        try:
            return bytes(await link.call("ECHO", "x" * 100_000))
        except StoreUnavailable:
            return None
        finally:
            await link.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        reply = runner.run(work())
    assert (reply is None, faults, complaints) == (bool(told), told, [])
