"""The engine's page over a real engine: figures, and the prefix tree of each tenant."""

from pathlib import Path

import pytest
from playwright.async_api import expect
from pydantic import SecretStr

from gateway.settings import EngineSettings
from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, script
from tests.engine.serving import NAME, serving
from tests.gateway.http.admin.ui.browser import ADMIN_KEY, CHROMIUM, NO_BROWSER, Look, browsing, seen_everywhere
from tests.gateway.http.wire import ask, said
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(120)]

SYSTEM = "You are a careful assistant of a bicycle shop. " * 4


async def talk(it: Stand, key: str, questions: list[str]) -> None:
    for question in questions:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        assert (await ask(it, said("", model=NAME, messages=messages, max_tokens=2), key=key)).status == 200


async def test_the_page_shows_each_tenants_tree(
    tmp_path: Path, redis_server: RedisServer, pytestconfig: pytest.Config
) -> None:
    runner, config = ScriptedRunner(300, script("ok")), tiny.small_config(kv_tokens=8192)
    with serving(tiny.write_folder(tmp_path / "tiny"), runner, config) as engine:
        settings = {
            "admin_key": SecretStr(ADMIN_KEY),
            "engine": EngineSettings(enabled=False, name=NAME),
            "engine_url": f"unix://{engine.path}",
        }
        async with stand(tmp_path, redis_server, **settings) as it, browsing(it) as look:
            found = await _looked_at(look, pytestconfig.getoption("screenshots"))
    assert found == {}
    assert look.errors == []


async def _looked_at(look: Look, folder: str | None) -> dict[str, list[str]]:
    it = look.stand
    page = await look.signed_in()
    await page.goto(f"{look.base}/engine")
    await expect(page.get_by_text("No prefix is cached")).to_be_visible()
    await talk(it, KEY, ["How do I mend a tyre?", "How do I mend a tyre on the road?", "What is a derailleur?"])
    await it.purge(kind="user", value="ann")
    await talk(
        it, KEY, ["Which oil is for chains?", "Which oil is for brakes?", "Which oil is for brakes of steel?"]
    )
    await talk(it, await it.tenant("acme"), ["Who won the Tour in 1999?"])
    await page.reload()
    tree = page.get_by_role("table", name="Cached prefixes by tenant")
    for text in ("default", "acme", "No present tenant", "0 to "):
        await expect(tree).to_contain_text(text)
    link = tree.get_by_role("link", name="acme")
    await expect(link).to_have_attribute("href", f"/admin/ui/tenants/{await it.tenant_id('acme')}")
    return await seen_everywhere(page, "engine-tree", folder)
