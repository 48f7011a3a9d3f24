"""Versions by the administrator's API: registered, listed, their impact told and then felt."""

from pathlib import Path
from typing import Any

from tests.gateway.http.admin.whole import Office, Told, office
from tests.gateway.http.wire import words
from tests.servers.redis import RedisServer

OWN = "/tenants/default/versions"
HELP = "You help the customers of Acme with their orders."


def asked(system: str, text: str = "Where is it?") -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return {"model": "m", "messages": messages}


async def register(it: Office, name: str, version: str, path: str = OWN, **fields: Any) -> Told:
    return await it.ask("POST", path, {"name": name, "version": version, "kind": "prompt", **fields})


async def chain(it: Office) -> None:
    assert (await register(it, "kb", "1", kind="knowledge_base")).status == 200
    assert (await register(it, "help", "1", depends_on=["kb"], instructions=[HELP])).status == 200


async def test_impact_says_what_a_change_then_takes(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        for text in ("Where?", "When?"):
            await words(it.it, asked(HELP, text))
        await words(it.it, asked("Be brief."))
        await chain(it)
        told = await it.ask("GET", "/dependencies/kb@1/impact?tenant=default")
        assert told.status == 200
        assert told.body["taken"] == ["help@1", "kb@1"]
        assert told.body["matches"] == {"exact": 2, "semantic": 0}
        assert told.body["looked_at"]["exact"] == 3
        everybodys = await it.ask("GET", "/dependencies/kb@1/impact")
        assert (everybodys.status, everybodys.body["code"]) == (404, "not_found")
        assert await words(it.it, asked(HELP, "When?")) == "HIT", "nothing was changed"
        changed = await register(it, "kb", "2", kind="knowledge_base")
        assert changed.body["outcome"] == "registered"
        assert changed.body["taken"] == ["help@1", "kb@1"]
        assert changed.body["announced"] is True
        assert await words(it.it, asked(HELP, "When?")) == "MISS"
        assert await words(it.it, asked("Be brief.")) == "HIT"
        again = await it.ask("GET", "/dependencies/help/impact?tenant=default")
        assert (again.body["change"], again.body["matches"]["exact"]) == ("register", 1)


async def test_what_is_for_all_counts_of_all(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await it.it.tenant("acme")
        await register(it, "kb", "1", "/versions", kind="knowledge_base")
        await register(it, "help", "1", depends_on=["kb"], instructions=[HELP])
        await words(it.it, asked(HELP))
        told = await it.ask("GET", "/dependencies/kb/impact")
        assert (told.body["taken"], told.body["matches"]["exact"]) == (["help@1", "kb@1"], 1)
        bound = await it.token("reader", "acme")
        assert (await it.ask("GET", "/dependencies/kb/impact", key=bound)).body["code"] == "token_is_bound"
        seen = await it.ask("GET", "/dependencies/kb/impact?tenant=acme", key=bound)
        assert (seen.body["taken"], seen.body["matches"]["exact"]) == (["kb@1"], 0)


async def test_versions_are_listed_in_pages(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await chain(it)
        await register(it, "policy", "1", "/versions", kind="policy")
        first = await it.ask("GET", f"{OWN}?limit=2")
        assert [one["id"] for one in first.body["items"]] == ["help@1", "kb@1"]
        last = await it.ask("GET", f"{OWN}?limit=2&after={first.body['next']}")
        assert [(one["id"], one["tenant"]) for one in last.body["items"]] == [("policy@1", None)]
        assert last.body["next"] is None
        assert first.body["items"][0]["digests"] == 1
        assert HELP not in str(first.body)
        assert (await it.ask("GET", f"{OWN}?after=nobody@1")).body["code"] == "bad_after"
        assert [one["id"] for one in (await it.ask("GET", "/versions")).body["items"]] == ["policy@1"]


async def test_retiring_and_refusals(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await chain(it)
        retired = await it.ask("DELETE", f"{OWN}/kb@1?mode=soft")
        assert (retired.body["outcome"], retired.body["taken"]) == ("retired", ["help@1", "kb@1"])
        assert (await it.ask("DELETE", f"{OWN}/kb@1")).body["outcome"] == "unchanged"
        for told, status in (
            (await it.ask("DELETE", f"{OWN}/kb"), 400),
            (await it.ask("DELETE", f"{OWN}/kb@7"), 404),
            (await register(it, "kb", "2", kind="model"), 409),
            (await register(it, "kb", "2", "/versions"), 409),
            (await register(it, "x", "1", depends_on=["nobody"]), 400),
            (await register(it, "x", "1", instructions=["{{all}}"]), 400),
            (await register(it, "x", "1", kind="thing"), 400),
        ):
            assert told.status == status, told
        await register(it, "kb", "1", kind="knowledge_base")
        cyclic = await register(it, "kb", "3", kind="knowledge_base", depends_on=["help"])
        assert cyclic.status == 409
        assert "kb@3 -> help@1 -> kb@3" in cyclic.body["detail"]


async def test_a_registration_is_previewed_as_it_then_happens(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await words(it.it, asked(HELP))
        await chain(it)
        body = {"name": "kb", "version": "2", "kind": "knowledge_base"}
        told = await it.ask("POST", f"{OWN}/preview", body)
        assert (told.status, told.body["outcome"], told.body["retired"]) == (200, "registered", ["kb@1"])
        assert (told.body["taken"], told.body["matches"]["exact"]) == (["help@1", "kb@1"], 1)
        beside = await it.ask("POST", f"{OWN}/preview", {**body, "beside": True})
        assert (beside.body["retired"], beside.body["taken"]) == ([], ["help@1"])
        again = await it.ask("POST", f"{OWN}/preview", {**body, "version": "1"})
        assert (again.body["outcome"], again.body["taken"], again.body["scopes"]) == ("unchanged", [], [])
        other = await it.ask("POST", f"{OWN}/preview", {**body, "version": "1", "content": "x"})
        assert (other.body["outcome"], other.body["taken"]) == ("changed", ["help@1", "kb@1"])
        assert (await it.ask("POST", f"{OWN}/preview", {**body, "depends_on": ["help"]})).status == 409
        assert (await it.ask("POST", "/versions/preview", body)).status == 409, "the name is a tenant's"
        assert await words(it.it, asked(HELP)) == "HIT", "nothing was changed"
        assert (await register(it, "kb", "2", kind="knowledge_base")).body["taken"] == told.body["taken"]


async def test_a_registration_for_all_is_previewed_of_all(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await it.it.tenant("acme")
        await register(it, "kb", "1", "/versions", kind="knowledge_base")
        await register(it, "help", "1", depends_on=["kb"], instructions=[HELP])
        await words(it.it, asked(HELP))
        told = await it.ask("POST", "/versions/preview", {"name": "kb", "version": "2", "kind": "knowledge_base"})
        assert (told.body["tenant"], told.body["taken"]) == (None, ["help@1", "kb@1"])
        assert (told.body["matches"]["exact"], told.body["looked_at"]["exact"]) == (1, 1)
