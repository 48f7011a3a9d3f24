"""Who gets in, what a form must carry, what is shown to whom, and that nobody's text becomes markup."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from pydantic import SecretStr

from gateway.db import KeyRepository, TokenRepository
from gateway.db.erasing import ErasingRepository
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer

ADMIN_KEY = "lam_admin_" + "k" * 40
MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
WORD = re.compile(r'name="word" value="([0-9a-f]+)"')
ERASING = ("/erasures", "/erasures/confirm")
pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN_KEY)) as one:
        yield one


class Browser:
    """Keeps cookies, follows nothing."""

    def __init__(self, it: Stand, http: aiohttp.ClientSession) -> None:
        self.base = f"{it.url}/admin/ui"
        self.http = http
        self.word = ""

    async def ask(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str, Any]:
        method = "GET" if form is None else "POST"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.base + path
        async with self.http.request(method, url, data=form, headers=named, allow_redirects=False) as reply:
            text = await reply.text()
            found = WORD.search(text)
            self.word = found[1] if found else self.word
            return reply.status, text, reply.headers

    async def sign_in(self, key: str) -> int:
        status, _, _ = await self.ask("/sign-in", {"token": key})
        if status == 303:
            await self.ask("")
        return status

    async def send(self, path: str, **form: str) -> tuple[int, str, Any]:
        return await self.ask(path, {"word": self.word, **form})


@pytest_asyncio.fixture
async def browser(it: Stand) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield Browser(it, http)


async def token(it: Stand, role: str, tenants: list[str] | None = None) -> str:
    made = await TokenRepository(it.database).create("t", role, tenants, None, "test", time.time())  # type: ignore[arg-type]
    return made[1]


async def test_strangers_see_the_door_and_nothing_behind_it(browser: Browser) -> None:
    for path in ("", "/", "/tenants", "/nowhere", "/requests/rows"):
        status, text, headers = await browser.ask(path)
        assert (status, text) == (303, "")
        assert headers["location"].startswith("/admin/ui/sign-in")
    status, text, headers = await browser.ask("/requests/rows", hx_request="true")
    assert (status, text, headers["hx-redirect"]) == (401, "", "/admin/ui/sign-in")
    assert (await browser.ask("/tenants", {"name": "x"}))[0] == 303
    assert (await browser.ask("/sign-in"))[0] == 200


@pytest.mark.parametrize("key", ["", "nobody", "lat_" + "x" * 40, KEY])
async def test_other_keys_open_nothing(browser: Browser, key: str) -> None:
    status, text, headers = await browser.ask("/sign-in", {"token": key})
    assert status in (401, 403)
    assert "set-cookie" not in headers
    assert not key or key not in text


async def test_every_answer_carries_its_policy(browser: Browser) -> None:
    for path in ("/sign-in", "", "/assets/none"):
        headers = (await browser.ask(path))[2]
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "same-origin"
        assert "strict-transport-security" not in headers
    headers = (await browser.ask("/sign-in", {"token": ADMIN_KEY}, x_forwarded_proto="https"))[2]
    assert headers["strict-transport-security"] == "max-age=31536000"
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(headers["set-cookie"].split("; "))
    assert ADMIN_KEY not in str(headers)


async def test_attempts_are_limited(browser: Browser) -> None:
    for _ in range(10):
        assert (await browser.ask("/sign-in", {"token": "nobody"}))[0] == 401
    status, text, headers = await browser.ask("/sign-in", {"token": ADMIN_KEY})
    assert (status, "Too many attempts" in text) == (429, True)
    assert 0 < int(headers["retry-after"]) <= 60


async def test_a_form_must_be_ours(browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    assert (await browser.ask("/tenants", {"name": "acme"}))[0] == 403
    assert (await browser.ask("/tenants", {"name": "acme", "word": "0" * 64}))[0] == 403
    ours = {"name": "acme", "word": browser.word}
    assert (await browser.ask("/tenants", ours, origin="https://elsewhere.example"))[0] == 403
    assert (await browser.ask("/tenants", ours, sec_fetch_site="cross-site"))[0] == 403
    assert (await browser.ask("/tenants", ours, content_type="text/plain"))[0] in (403, 415)
    status, _, headers = await browser.send("/tenants", name="acme")
    assert status == 303
    assert headers["location"].endswith("?done=tenant_created")


async def test_signing_out_ends_the_session_also_for_a_copy_of_its_cookie(it: Stand, browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    (cookie,) = browser.http.cookie_jar
    assert (await browser.send("/sign-out"))[0] == 303
    async with aiohttp.ClientSession() as copy:
        headers = {"cookie": f"{cookie.key}={cookie.value}"}
        async with copy.get(f"{it.url}/admin/ui", headers=headers, allow_redirects=False) as reply:
            assert reply.status == 303


async def test_a_reader_changes_nothing_and_sees_no_buttons(it: Stand, browser: Browser) -> None:
    await browser.sign_in(await token(it, "reader"))
    tenant_id = await it.tenant_id()
    for path in ("", "/tenants", f"/tenants/{tenant_id}", "/routes", "/entries", "/versions", "/audit"):
        status, text, _ = await browser.ask(path)
        assert status == 200
        assert re.findall(r'<form method="post" action="([^"]+)"', text) == ["/admin/ui/sign-out"]
        assert "/admin/ui/purge" not in text
    assert (await browser.ask("/purge"))[0] == 403
    for path in ("/tokens", "/explain", "/erasures", "/versions/new"):
        assert (await browser.ask(path))[0] == 403
    keys, posts = f"/tenants/{tenant_id}/keys", ("/explain", "/versions", "/versions/new")
    for path in ("/tenants", keys, "/purge", "/routes/mode", "/tokens", *posts, *ERASING):
        assert (await browser.send(path, tenant=tenant_id, kind="tenant", confirm="default"))[0] == 403


async def test_an_operator_erases_nothing_and_registers_nothing_for_all(it: Stand, browser: Browser) -> None:
    await browser.sign_in(await token(it, "operator"))
    tenant_id = await it.tenant_id()
    for path in ERASING:
        assert (await browser.send(path, tenant=tenant_id, scope="tenant", confirm="default"))[0] == 403
    for path in ("/versions", "/versions/new"):
        told = await browser.send(path, tenant="", name="docs", version="1", kind="policy")
        assert (told[0], "Not registered." in told[1]) == (403, True)
    for path in ("/explain", "/versions", "/erasures"):
        form = {"tenant": tenant_id, "model": "m", "question": "x", "word": "0" * 64}
        assert (await browser.ask(path, form))[0] == 403
    assert await ErasingRepository(it.database).begun(None, None, 1) == []


async def test_a_bound_token_sees_only_its_tenants(it: Stand, browser: Browser) -> None:
    await it.tenant("acme")
    await it.tenant("rival")
    await browser.sign_in(await token(it, "admin", ["acme"]))
    default_id = await it.tenant_id()
    for path in ERASING:
        form = {"tenant": default_id, "scope": "tenant", "confirm": "default"}
        assert (await browser.send(path, **form))[0] == 404
    form = {"tenant": default_id, "model": "m", "question": "x"}
    assert (await browser.send("/explain", **form))[0] == 404
    for path in ("", "/requests", "/tenants", "/purge", "/entries", "/audit", "/doctor", "/ledger"):
        status, text, _ = await browser.ask(path)
        assert status == 200
        assert "rival" not in text
        assert await it.tenant_id("rival") not in text
    assert (await browser.ask(f"/tenants/{await it.tenant_id('rival')}"))[0] == 404
    assert (await browser.ask("/tokens"))[0] == 403


async def test_nobodys_text_becomes_markup(it: Stand, browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    tenant_id = await it.tenant_id()
    await KeyRepository(it.database).create("default", MARKUP, "test", time.time())
    async with it.client() as client:
        await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": MARKUP}],
            extra_headers={"x-lamina-cache-groups": "a<b>c"},
        )
        with pytest.raises(Exception, match="404"):
            await client.chat.completions.create(model=MARKUP, messages=[{"role": "user", "content": "x"}])
    await it.purge("tag", MARKUP)
    pages = ["", "/requests", f"/tenants/{tenant_id}", "/purge", "/audit", "/entries", f"/tenants?done={MARKUP}"]
    pages += [f"/entries?tenant={tenant_id}&tag={MARKUP}", f"/requests?model={MARKUP}", f"/ledger?model={MARKUP}"]
    for path in pages:
        _, text, _ = await browser.ask(path)
        assert "<img src=x" not in text
        assert "<script>window" not in text
    assert "&lt;img src=x" in (await browser.ask(f"/tenants/{tenant_id}"))[1]
    assert "&lt;img src=x" in (await browser.ask("/audit"))[1]
    shown = (await browser.send("/purge/preview", tenant=tenant_id, kind="tag", value="a<b>c", reason=MARKUP))[1]
    assert "&lt;img src=x" in shown
    assert "<img src=x" not in shown


async def test_where_a_part_is_away_the_page_says_which(
    it: Stand, browser: Browser, redis_server: RedisServer
) -> None:
    await browser.sign_in(ADMIN_KEY)
    redis_server.stop()
    try:
        status, text, _ = await browser.ask("")
        assert status == 200
        assert "Redis does not answer" in text
        status, text, _ = await browser.ask("/requests")
        assert status == 200
        assert "The feed cannot be shown" in text
        assert (await browser.ask("/tenants"))[0] == 200
    finally:
        redis_server.start()


async def test_a_key_that_is_made_twice_by_one_form_is_one_key(it: Stand, browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    path = f"/tenants/{await it.tenant_id()}/keys"
    keys = []
    for _ in range(2):
        status, text, _ = await browser.send(path, label="x", once="the-same-form")
        assert status == 200
        found = re.search(r'id="made">([^<]+)<', text)
        assert found is not None
        keys.append(found[1])
    assert keys[0] == keys[1]
    labels = [key.label for key in await KeyRepository(it.database).list("default")]
    assert labels.count("x") == 1


async def test_a_request_is_explained_or_it_is_said_why_not(browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    form = {"tenant": "default", "model": "m", "question": " Why? "}
    for more, controls, status, told in (
        ("", "", 200, "No semantic service is used"),
        ('{"temperature": 0}', "Cache-Control: max-age=60", 200, "field temperature"),
        ("[1]", "", 400, "one JSON object"),
        ("{", "", 400, "one JSON object"),
        ('{"messages": []}', "", 400, "fields of their own"),
        ("", "nothing", 400, "headers, one a line"),
        ("", "x-lamina-cache-mode: sideways", 400, "Bad cache control"),
    ):
        answered, text, headers = await browser.send("/explain", **form, more=more, controls=controls)
        assert (answered, told in text, headers["cache-control"]) == (status, True, "no-store")
        assert re.search(r'<textarea id="f-question"[^>]*>\s Why\? </textarea>', text)


async def test_a_registration_is_previewed_or_it_is_said_why_not(it: Stand, browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    form = {"tenant": await it.tenant_id(), "name": "docs", "version": "1", "kind": "prompt"}
    for field, value, status, told in (
        ("depends_on", "nobody", 400, "is not registered; register it first"),
        ("tools", "{}", 400, "Tools are a JSON list"),
        ("tools", "[1]", 400, "Not registered."),
        ("instructions", "{{all}}", 400, "Not registered."),
        ("models", " gpt-4o-mini \n\n", 200, "It is new."),
        ("beside", "yes", 200, "It is new."),
        ("instructions", "One.\r\nTwo.", 200, "It is new."),
    ):
        answered, text, _ = await browser.send("/versions/new", **form, **{field: value})
        assert (answered, told in text) == (status, True), (field, value)
    assert "Nothing is registered" in (await browser.ask(f"/versions?tenant={form['tenant']}"))[1]
    for done in ("version_registered", "version_known"):
        _, _, headers = await browser.send("/versions", **form, instructions="One.\nTwo.")
        assert headers["location"].endswith(f"done={done}")


async def test_there_is_no_such_erasure(browser: Browser) -> None:
    await browser.sign_in(ADMIN_KEY)
    for path in ("/erasures/E0000000000000000", "/erasures/E0000000000000000/body", "/erasures/nonsense"):
        assert (await browser.ask(path))[0] in {400, 404}
    assert (await browser.ask("/erasures/confirm"))[0] == 200
