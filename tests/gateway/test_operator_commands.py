"""`lamina explain` and `lamina warm` against a whole set: two workers, real Redis, the real program."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.http.wire import said
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, until, upstream_of, whole_set
from tests.servers.running_set import ROOT
from tests.upstream import Script, Upstream

pytestmark = pytest.mark.slow
ADMIN = "lam_admin_" + "b" * 40


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSet]:
    with whole_set(tmp_path_factory.mktemp("operator") / "home") as one:
        asyncio.run(one.start())
        yield one
        output = one.running.output
        assert "Traceback" not in output
        assert (one.running.home / "admin_key").read_text().strip() not in output
        assert one.running.stop() == 0


@pytest.fixture
async def upstream(it: WholeSet) -> AsyncIterator[Upstream]:
    async with upstream_of(it) as one:
        yield one


def request_file(path: Path, *lines: Any) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return str(path)


def _heed_interrupts() -> None:
    """A shell that runs the tests in the background makes them, and what they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kept(file: str) -> list[str]:
    """The lines of the state beside a file."""
    state = Path(f"{file}.done")
    return state.read_text().splitlines() if state.exists() else []


async def warmed(it: WholeSet, file: str, *words: str) -> dict[str, Any]:
    return await it.done("warm", file, "--model", "m", "--key", KEY, *words)


async def test_a_request_is_explained_before_and_after(it: WholeSet, upstream: Upstream, tmp_path: Path) -> None:
    body = said("What is explained?")
    file = request_file(tmp_path / "request.json", body)
    before = await it.done("explain", file)
    assert (before["verdict"], before["rule"]) == ("miss", "absent")
    assert upstream.count == 0
    await warmed(it, request_file(tmp_path / "prompts", body))
    after = await it.done("explain", file)
    assert (after["verdict"], after["layer"]) == ("hit", "exact")
    assert after["key"] == before["key"]
    refreshed = await it.done("explain", file, "--header", "Cache-Control: no-cache")
    assert refreshed["rule"] == "request"


async def test_what_cannot_be_explained(it: WholeSet, tmp_path: Path) -> None:
    file = request_file(tmp_path / "request.json", said("x"))
    assert "no tenant" in (await it.lamina("explain", file, "--tenant", "nobody")).error
    unknown = await it.lamina("explain", request_file(tmp_path / "other.json", said("x", model="unknown")))
    assert (unknown.status, "unknown" in unknown.error) == (1, True)
    broken = await it.lamina("explain", request_file(tmp_path / "broken.json", "{"))
    assert (broken.status, "no JSON" in broken.error) == (1, True)


async def test_a_file_is_warmed_once(it: WholeSet, upstream: Upstream, tmp_path: Path) -> None:
    asked = [f"Warm question {number}?" for number in range(20)]
    file = request_file(tmp_path / "prompts", *asked, {"prompt": asked[0]}, said(asked[1]))
    told = await warmed(it, file, "--concurrency", "1")
    assert (told["lines"], told["stored"], told["cached"], told["done_before"]) == (22, 20, 0, 2)
    assert upstream.count == 20
    assert not kept(file)
    again = await warmed(it, file)
    assert (again["stored"], upstream.count) == (0, 20)
    assert again["cached"] + again["done_before"] == 22


async def test_refusals_are_told_with_reasons(it: WholeSet, upstream: Upstream, tmp_path: Path) -> None:
    upstream.enqueue(Script(finish_reason="length"))
    told = await warmed(
        it,
        request_file(tmp_path / "prompts", "Cut short?", said("Off?", web_search_options={})),
        "--concurrency",
        "1",
    )
    assert told["refused"] == {"length": 1, "live_data": 1}
    assert told["failed"] == {}


async def test_busy_upstreams_are_asked_again(it: WholeSet, upstream: Upstream, tmp_path: Path) -> None:
    busy = Script(status=429, headers={"retry-after": "0"}, body={"error": {"message": "busy"}})
    upstream.enqueue(busy)
    upstream.enqueue(busy)
    told = await warmed(it, request_file(tmp_path / "prompts", "Busy?"))
    assert (told["stored"], upstream.count) == (1, 3)


async def test_failures_exit_1_and_are_tried_again(it: WholeSet, upstream: Upstream, tmp_path: Path) -> None:
    file = request_file(tmp_path / "prompts", "Fine?", said("Who?", model="unknown"))
    told = await it.lamina("warm", file, "--model", "m", "--key", KEY)
    assert (told.status, told.data["failed"]) == (1, {"404 model_not_found": 1})
    assert kept(file)
    again = await it.lamina("warm", file, "--model", "m", "--key", KEY)
    assert (again.status, again.data["done_before"]) == (1, 1)
    stranger = await it.lamina("warm", file, "--model", "m", "--key", "lam_nobody_at_all")
    assert (stranger.status, "Incorrect API key" in stranger.error) == (1, True)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
async def test_a_run_that_is_stopped_goes_on_where_it_was(
    it: WholeSet, upstream: Upstream, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    asked = [f"Stopped by {sent.name}, question {number}?" for number in range(24)]
    file = request_file(tmp_path / "prompts", *asked)
    upstream.default = Script(delay_s=0.3)
    environment = {"PATH": os.environ["PATH"], "LAMINA_HOME": str(it.running.home), "LAMINA_CONFIG": os.devnull}
    environment |= {"LAMINA_DATABASE_DEADLINE_MS": "20000"}
    words = ("warm", file, "--model", "m", "--concurrency", "2", "--json")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *words),
        env=environment | {"LAMINA_API_KEY": KEY},
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        preexec_fn=_heed_interrupts,
    )
    await until(lambda: len(kept(file)) > 6, within_s=30)
    child.send_signal(sent)
    assert await child.wait() == status
    done_before = len(kept(file)) - 1
    assert 6 <= done_before < len(asked)
    upstream.default = Script()
    told = await warmed(it, file)
    assert told["done_before"] == done_before
    assert told["stored"] + told["cached"] == len(asked) - done_before
    in_flight = 2 if sent is signal.SIGKILL else 0
    assert upstream.count <= len(asked) + in_flight, "nothing that was answered is asked of the model twice"
