"""The tenant's salt reaches the blocks, whatever the surface."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, script
from tests.engine.serving import NAME, Served, serving

WORDS = "the same words for everybody, " * 6
SURFACES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": WORDS}]},
    "/v1/completions": {"prompt": WORDS},
}


async def cached(running: Served, surface: str, **fields: Any) -> int:
    body = {"model": NAME, "max_tokens": 2, "temperature": 0, **SURFACES[surface], **fields}
    async with running.http() as http:
        reply = await http.post(surface, json=body)
    found: int = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_salt_is_not_lost_on_the_way(tiny_folder: Path, surface: str) -> None:
    """ktransformers#2184, vllm#53347: the same salt hits, another misses, and so does none."""
    with serving(tiny_folder, ScriptedRunner(300, script("ok")), tiny.small_config(kv_tokens=2048)) as running:
        for salt in ({"cache_salt": "a"}, {"cache_salt": "b"}, {}):
            assert await cached(running, surface, **salt) == 0
            assert await cached(running, surface, **salt) > 0


async def purged(running: Served, salts: object) -> tuple[int, Any]:
    async with running.http() as http:
        reply = await http.post("/cache/purge", json={"salts": salts})
    return reply.status_code, reply.json()


async def test_a_purge_takes_the_blocks_of_its_salts_and_no_others(tiny_folder: Path) -> None:
    surface = "/v1/completions"
    config = tiny.small_config(kv_tokens=2048)
    with serving(tiny_folder, ScriptedRunner(300, script("ok")), config) as running:
        for salt in ("a", "b"):
            assert await cached(running, surface, cache_salt=salt) == 0
        status, told = await purged(running, ["a", "unknown"])
        assert status == 200
        assert told["blocks"] > 0
        assert await purged(running, ["a"]) == (200, {"blocks": 0})
        assert await cached(running, surface, cache_salt="a") == 0
        assert await cached(running, surface, cache_salt="b") > 0


@pytest.mark.parametrize("salts", [None, [], "a", [1], [""], ["a"] * 10_001])
async def test_a_purge_of_nothing_is_refused(tiny_folder: Path, salts: object) -> None:
    with serving(tiny_folder, ScriptedRunner(300, script("ok")), tiny.small_config(kv_tokens=2048)) as running:
        status, told = await purged(running, salts)
    assert (status, told["error"]["param"]) == (400, "salts")


async def test_the_prefixes_are_told_in_outline_without_tokens_or_salts(tiny_folder: Path) -> None:
    surface = "/v1/completions"
    config = tiny.small_config(kv_tokens=2048)
    with serving(tiny_folder, ScriptedRunner(300, script("ok")), config) as running:
        await cached(running, surface, cache_salt="b")
        for _ in range(2):
            await cached(running, surface, cache_salt="a")
        async with running.http() as http:
            reply = await http.get("/cache/prefixes")
            refused = await http.post("/cache/prefixes", json={})
    assert (reply.status_code, refused.status_code) == (200, 405)
    told = reply.json()
    assert told.keys() == {"block_size", "trees", "complete", "told"}
    assert told["trees"] == 2
    hits = {one["name"]: [run["hits"] for run in one["runs"]] for one in told["told"]}
    assert hits == {hashlib.sha256(b"a").hexdigest()[:32]: [1], hashlib.sha256(b"b").hexdigest()[:32]: [0]}
    for one in told["told"]:
        assert one.keys() == {"name", "blocks", "runs"}
        assert all(type(value) in {int, type(None)} for run in one["runs"] for value in run.values())
