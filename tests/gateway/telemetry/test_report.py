"""Observe mode on real traffic, and the report that says what each layer would have saved."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import lamina
from gateway.telemetry.report import ReportError, read_report
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer


async def metrics_text(it: Stand) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(it.url.rpartition(":")[2]))
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    text = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
    writer.close()
    await writer.wait_closed()
    return text


async def ask(it: Stand, *questions: str) -> list[str]:
    words = []
    async with it.client() as client:
        for question in questions:
            messages = [{"role": "user", "content": question}]
            reply = await client.chat.completions.with_raw_response.create(model="m", messages=messages)
            words.append(reply.headers["x-lamina-cache"])
    return words


async def test_observe_serves_nothing_and_counts_what_it_would_have_saved(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    async with stand(tmp_path, redis_server, cache={"mode": "observe"}) as it:
        assert await ask(it, "a", "a", "b", "a") == ["MISS"] * 4
        assert it.upstream.count == 4
        found = read_report(await metrics_text(it))
    (layer,) = (one for one in found.layers if one.layer == "exact")
    assert (layer.layer, layer.lookups, layer.hits, layer.would_hits, layer.hit_share) == ("exact", 4, 0, 2, 50.0)
    assert (layer.would_save_prompt_tokens, layer.would_save_completion_tokens) == (14, 8)
    assert layer.saved_prompt_tokens == 0
    assert (found.model_prompt_tokens, found.model_completion_tokens) == (28, 16)


async def test_exact_mode_reports_what_it_saved(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server) as it:
        assert await ask(it, "a", "a", "b", "a") == ["MISS", "HIT", "MISS", "HIT"]
        found = read_report(await metrics_text(it))
    (layer,) = found.layers
    assert (layer.hits, layer.would_hits, layer.misses) == (2, 0, {"absent": 2})
    assert (layer.saved_prompt_tokens, layer.saved_completion_tokens) == (14, 8)
    assert (found.requests, found.stored, found.refused_writes) == (4, 2, {})


@pytest.mark.parametrize("text", ["", "# nothing\n", "other_total 1\n", "lamina_requests_total{ 1"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ReportError):
        read_report(text)


async def test_the_command_prints_a_table_and_json(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with stand(tmp_path, redis_server) as it:
        await ask(it, "a", "a")
        shown = await asyncio.to_thread(CliRunner().invoke, lamina, ["report", "--url", it.url])
        as_json = await asyncio.to_thread(CliRunner().invoke, lamina, ["report", "--url", it.url, "--json"])
    assert shown.exit_code == 0
    assert "exact" in shown.output
    assert json.loads(as_json.output)["layers"][0]["hits"] == 1


def test_without_a_gateway_the_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(lamina, ["report", "--url", "http://127.0.0.1:9"])
    assert result.exit_code != 0
    assert "lamina serve" in (result.output or str(result.exception))
