"""The examples of docs/purge.md, run as they stand against a gateway whose model is scripted."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from gateway.settings import ModelSettings
from tests.gateway.http.admin.whole import ADMIN, office
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer
from tests.servers.running_set import ROOT
from tests.upstream import Script


async def ran(folder: Path, url: str) -> str:
    """All shell blocks of the page, one after another."""
    text = (ROOT / "docs" / "purge.md").read_text("utf-8")
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    script = script.replace("http://127.0.0.1:8080", url)
    environment = {"PATH": os.environ["PATH"], "LAMINA_HOME": str(folder), "LAMINA_API_KEY": KEY}
    environment |= {"LAMINA_DATABASE_DEADLINE_MS": "20000"}
    pipe = asyncio.subprocess.PIPE
    command = ("bash", "-euo", "pipefail", "-c", script)
    shell = await asyncio.create_subprocess_exec(*command, env=environment, cwd=folder, stdout=pipe, stderr=pipe)
    out, err = await shell.communicate()
    assert shell.returncode == 0, (err + out).decode()
    return out.decode()


@pytest.mark.slow
async def test_the_examples_of_purging(tmp_path: Path, redis_server: RedisServer) -> None:
    (tmp_path / "admin_key").write_text(ADMIN, "ascii")
    models = (ModelSettings(name="smollm2", provider="up"),)
    async with office(tmp_path, redis_server, models=models) as it:
        it.it.upstream.default = Script(pieces=("Paris is the capital",))
        said = await ran(tmp_path, it.it.url)
    lines = said.replace("}{", "}\n{").replace("}HTTP", "}\nHTTP")
    told = [json.loads(found) for found in re.findall(r"^\{.*\}$", lines, re.MULTILINE)]
    preview, purge, bulk, log, listed, shown, deleted = told
    assert preview["matches"] == {"exact": 1, "semantic": 0}
    assert 'cache-group-invalidation: "prices"' in said
    assert (purge["seq"], [one["seq"] for one in bulk["purges"]]) == (1, [2, 3])
    assert [one["seq"] for one in log["items"]] == [3, 2, 1]
    assert [one["id"] for one in listed["items"]] == [shown["id"]] == [deleted["value"]]
    assert shown["answer"][0]["content"] == "Paris is the capital"
