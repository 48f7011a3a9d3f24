"""A provider over https: whose certificate is believed, what a bad peer costs, and what the log is told."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.errors import UpstreamError
from gateway.providers.contract import Provider, ProviderCall
from tests.gateway.providers.conftest import KEY, Front, Make
from tests.servers.running_set import ROOT
from tests.servers.tls import Papers
from tests.upstream import Upstream


async def failure(provider: Provider, call: ProviderCall) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await provider.complete(call)
    return caught.value


async def test_the_providers_own_authority_is_believed(
    make: Make, front: Front, call: ProviderCall, papers: Papers
) -> None:
    at = front()
    provider = make(at, ca_file=papers.ours.ca)
    for _ in range(3):
        completed = await provider.complete(call)
        assert completed.response.choices[0].message["content"] == "Hello from upstream"
    stream = await provider.stream(call)
    assert len([chunk async for chunk in stream]) > 3
    await stream.close()
    assert at.accepted == 1, "the connection is kept"


@pytest.mark.parametrize(
    ("server", "advice"),
    [
        ("foreign", "certificate of nobody who is trusted here; name its CA by ca_file, or SSL_CERT_FILE"),
        ("wrong_name", "certificate for other names than the one in the URL"),
        ("expired", "certificate that is not valid now"),
        ("asks", ""),
    ],
)
async def test_who_is_not_believed_is_told_nothing(  # noqa: PLR0917
    make: Make, front: Front, call: ProviderCall, papers: Papers, server: str, advice: str
) -> None:
    at = front(getattr(papers, server))
    told = await failure(make(at, ca_file=papers.ours.ca), call)
    assert told.status == 502
    assert advice in told.advice
    assert at.heard == b""
    for secret in (KEY, str(papers.ours.ca), "localhost"):
        assert secret not in f"{told} {told.body} {told.headers}"


async def test_the_systems_authorities_do_not_vouch_for_ours(make: Make, front: Front, call: ProviderCall) -> None:
    told = await failure(make(front()), call)
    assert (told.reason, told.status) == ("connect", 502)
    assert "name its CA by ca_file" in told.advice


async def test_a_port_without_tls_is_refused(make: Make, front: Front, call: ProviderCall, papers: Papers) -> None:
    at = front(behaviour="bad_request")
    told = await failure(make(at, ca_file=papers.ours.ca), call)
    assert KEY.encode() not in at.heard
    assert (told.reason, told.status) == ("connect", 502)
    assert told.advice.startswith("no TLS came about; look whether that port speaks it")


async def test_a_peer_that_stalls_in_the_handshake_costs_one_deadline(
    make: Make, front: Front, call: ProviderCall, papers: Papers
) -> None:
    provider = make(front(behaviour="silent"), ca_file=papers.ours.ca, connect_timeout_s=0.3)
    began = time.perf_counter()
    told = await failure(provider, call)
    assert 0.29 <= time.perf_counter() - began < 2
    assert (told.reason, told.status) == ("connect", 504)


async def test_a_client_shows_its_certificate_also_when_it_is_renewed(
    make: Make, front: Front, call: ProviderCall, papers: Papers
) -> None:
    mine = papers.ours.sign("renewed-too", "client.test", ends_in_days=-1)
    shown = {"ca_file": papers.ours.ca, "cert_file": mine.certificate, "key_file": mine.key}
    provider = make(front(papers.asks), **shown)
    assert (await failure(provider, call)).status == 502
    papers.ours.sign("renewed-too", "client.test")
    assert (await provider.complete(call)).response.choices


_AS_A_WORKER = """
import asyncio, json, sys
from gateway.errors import SemanticUnavailable, UpstreamError
from gateway.providers.contract import ProviderCall
from gateway.providers.openai import OpenAIProvider
from gateway.providers.scrape import scrape
from gateway.semantic_link import SemanticLink, SemanticTarget
from gateway.settings import ProviderSettings

async def main(url):
    told = []
    provider = OpenAIProvider("up", ProviderSettings(base_url=url + "/v1"))
    link = SemanticLink(SemanticTarget.parse(url, "t"), failures=9, retry_s=1.0, on_fault=told.append)
    try:
        told.append((await provider.complete(ProviderCall("m", {"messages": []}, "r"))).response.model)
    except UpstreamError as error:
        told.append(error.reason)
    try:
        told.append(len(await scrape(url, "/v1/models")))
    except UpstreamError as error:
        told.append(error.reason)
    told.append(await link.healthy())
    await provider.close()
    await link.close()
    print(json.dumps(told))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("trusts", [True, False])
async def test_ssl_cert_file_names_whom_every_link_trusts(
    front: Front, upstream: Upstream, papers: Papers, tmp_path: Path, *, trusts: bool
) -> None:
    """A provider without `ca_file`, the engine's pages, the semantic service; HTTPS_PROXY is not asked."""
    at = front()
    environ = {"PATH": os.environ["PATH"], "HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    environ["SSL_CERT_FILE"] = str(papers.ours.ca if trusts else papers.strangers.ca)
    environ["SSL_CERT_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", _AS_A_WORKER, f"https://localhost:{at.port}"]
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, err.decode()
    answered, page, _ = json.loads(out)
    assert (answered, isinstance(page, int)) == (("m", True) if trusts else ("connect", False))
    assert (b"/health" in at.heard) == trusts
