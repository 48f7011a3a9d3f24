"""The link answers or refuses within its deadline; an open breaker costs nothing until the service is well."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import SemanticUnavailable, SettingsError
from gateway.semantic_link import SemanticLink, SemanticTarget
from policies.nomination import Ask, Pairs, Texts
from policies.questions import Question
from tests.servers.nominator import Nominator, nominating
from tests.servers.tls import Behaviour, Papers, TlsFront

ASK = Ask(b"p" * 32, b"f" * 32, Question((("user", "Hi"),)))


@dataclass
class Stand:
    """A link, its service and what it said of faults."""

    link: SemanticLink
    service: Nominator
    faults: list[str] = field(default_factory=list)

    async def refused(self, deadline_s: float = 0.1) -> str:
        with pytest.raises(SemanticUnavailable) as caught:
            await self.link.nominate(ASK, deadline_s)
        return caught.value.reason


@pytest_asyncio.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    path = tmp_path / "s.sock"
    async with nominating(path, f"sqlite:///{tmp_path}/lamina.db") as service:
        service.told = ()
        faults: list[str] = []
        link = SemanticLink(
            SemanticTarget.parse(f"unix://{path}"), failures=3, retry_s=0.05, on_fault=faults.append
        )
        yield Stand(link, service, faults)
        await link.close()


async def test_it_asks_and_is_answered(stand: Stand) -> None:
    nominated = await stand.link.nominate(ASK, 5.0)
    assert (nominated.candidates, nominated.models) == ((), "words-1")
    assert stand.service.asks == [ASK]
    verdicts = await stand.link.verify(Pairs((("a b", "a b"), ("a", "c"))), 5.0)
    assert [probability for _, probability in verdicts.verdicts] == [1.0, 0.0]


async def test_failures_in_a_row_open_the_breaker_and_health_closes_it(stand: Stand) -> None:
    stand.service.wait_s = 5.0
    assert [await stand.refused() for _ in range(3)] == ["timeout"] * 3
    begun = time.perf_counter()
    assert [await stand.refused() for _ in range(100)] == ["down"] * 100
    assert time.perf_counter() - begun < 1
    assert stand.faults == ["timeout"] * 3
    stand.service.wait_s = 0.0
    await _until_open(stand.link)
    await stand.link.nominate(ASK, 5.0)
    assert stand.link.open


async def test_after_a_pause_one_failure_is_enough(stand: Stand) -> None:
    stand.service.wait_s = 5.0
    for _ in range(3):
        await stand.refused()
    await _until_open(stand.link)
    assert await stand.refused() == "timeout"
    assert not stand.link.open


async def test_one_success_forgets_failures(stand: Stand) -> None:
    for wait_s in (5.0, 5.0, 0.0, 5.0, 5.0):
        stand.service.wait_s = wait_s
        if wait_s:
            await stand.refused()
        else:
            await stand.link.nominate(ASK, 5.0)
    assert stand.link.open


async def test_nothing_listens(tmp_path: Path) -> None:
    target = SemanticTarget.parse(f"unix://{tmp_path}/none.sock")
    link = SemanticLink(target, failures=3, retry_s=9, on_fault=lambda _: None)
    for _ in range(4):
        with pytest.raises(SemanticUnavailable, match="down"):
            await link.nominate(ASK, 1.0)
    assert not await link.healthy()
    await link.close()
    with pytest.raises(SemanticUnavailable, match="down"):
        await link.nominate(ASK, 1.0)


async def test_an_answer_of_another_shape_is_garbled(stand: Stand) -> None:
    with pytest.raises(SemanticUnavailable, match="garbled"):
        await stand.link.embed(Texts(("x",)), 5.0)


async def _until_open(link: SemanticLink) -> None:
    async with asyncio.timeout(10):
        while not link.open:  # noqa: ASYNC110  (the link has no event)
            await asyncio.sleep(0.01)


def test_a_port_needs_a_token_and_a_socket_none() -> None:
    assert SemanticTarget.parse("unix:///a%20b/s.sock").path == "/a b/s.sock"
    target = SemanticTarget.parse("http://host:9/", "secret")
    assert (target.base, target.headers()["authorization"]) == ("http://host:9", "Bearer secret")
    assert "secret" not in repr(target)
    for url in ("http://host", "ftp://host", "unix:", "nonsense", ""):
        with pytest.raises(SettingsError, match=r"^semantic_url: "):
            SemanticTarget.parse(url)


@pytest.mark.parametrize(("behaviour", "reason"), [("tls", "down"), ("silent", "timeout"), ("plain", "down")])
async def test_a_service_that_is_not_believed_is_down_within_the_deadline(
    papers: Papers, behaviour: Behaviour, reason: str, tmp_path: Path
) -> None:
    """Only SSL_CERT_FILE names a private authority here; see tests/gateway/providers/test_tls.py."""
    path = tmp_path / "s.sock"
    async with nominating(path, f"sqlite:///{tmp_path}/lamina.db"):
        faults: list[str] = []
        with TlsFront(lambda: asyncio.open_unix_connection(str(path)), papers.good, behaviour) as at:
            target = SemanticTarget.parse(f"https://localhost:{at.port}", "t0ken")
            link = SemanticLink(target, failures=3, retry_s=5.0, on_fault=faults.append)
            begun = time.perf_counter()
            with pytest.raises(SemanticUnavailable) as caught:
                await link.nominate(ASK, 0.3)
            assert time.perf_counter() - begun < 2
            await link.close()
    assert (caught.value.reason, faults) == (reason, [reason])
    assert b"t0ken" not in at.heard
