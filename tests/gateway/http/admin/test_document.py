"""The OpenAPI document, and by way of it every route there is: refused to whoever may not use it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.http.admin.caller import ROLES
from gateway.wiring.admin import ROUTERS
from tests.gateway.http.admin.whole import Office, office
from tests.gateway.http.wire import line, message
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer

VERBS = {"get", "put", "post", "delete", "patch"}


@dataclass(frozen=True)
class Operation:
    """A route of the document, with an example of what it takes."""

    method: str
    path: str
    told: dict[str, Any]
    body: Any

    @property
    def names_a_tenant(self) -> bool:
        queries = {one["name"] for one in self.told.get("parameters", []) if one["in"] == "query"}
        said = isinstance(self.body, dict) and "tenant" in self.body
        return "{tenant}" in self.path or said or "tenant" in queries

    @property
    def of_default(self) -> str:
        """The path with every part filled in, about the tenant `default`."""
        parts = self.path.replace("{tenant}", "default").split("/")
        filled = "/".join("A0123456789ABCDEF" if part.startswith("{") else part for part in parts)
        by_query = self.names_a_tenant and "{tenant}" not in self.path and self.method == "GET"
        return f"{filled}?tenant=default" if by_query else filled

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """All of them."""
    for path, verbs in document["paths"].items():
        for verb, told in verbs.items():
            assert verb in VERBS
            yield Operation(verb.upper(), path, told, example(document, told))


def example(document: dict[str, Any], told: dict[str, Any]) -> Any:
    """The example of an operation's body; None when it takes none."""
    content = told.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    schema = content["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    assert schema.get("examples"), f"{told['operationId']}: the body has no example"
    return schema["examples"][0]


async def document(it: Office) -> dict[str, Any]:
    told = await it.ask("GET", "/openapi.json")
    assert told.status == 200
    return told.body


@pytest.mark.slow
async def test_every_route_is_refused_to_whoever_may_not_use_it(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        tenants_key = await it.it.tenant("other")
        tokens = {role: await it.token(role) for role in ROLES}
        bound = await it.token("admin", "other")
        wrong: list[str] = []

        async def expect(operation: Operation, key: str | None, status: int, code: str) -> None:
            told = await it.ask(operation.method, operation.of_default, operation.body, key)
            if (told.status, (told.body or {}).get("code")) != (status, code):
                wrong.append(f"{operation}: {status} {code} expected, got {told.status} {told.body}")
            assert told.headers["cache-control"] == "no-store"

        found = list(operations(await document(it)))
        for operation in found:
            needed = operation.told["x-lamina-role"]
            await expect(operation, None, 401, "invalid_admin_key")
            await expect(operation, "lam_of_nobody_in_particular", 401, "invalid_admin_key")
            await expect(operation, KEY, 403, "not_administrator")
            await expect(operation, tenants_key, 403, "not_administrator")
            for role in ROLES[: ROLES.index(needed)]:
                await expect(operation, tokens[role], 403, "role_too_low")
            if operation.told["x-lamina-everywhere"]:
                await expect(operation, bound, 403, "token_is_bound")
            elif operation.names_a_tenant:
                await expect(operation, bound, 404, "not_found")
        assert wrong == []
        assert len(found) >= 25


@pytest.mark.slow
async def test_a_bound_token_is_told_nothing_of_other_tenants(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        await it.it.tenant("other")
        default_id = await it.it.tenant_id()
        bound = await it.token("admin", "other")
        for operation in operations(await document(it)):
            if operation.method == "GET" and "{" not in operation.path:
                told = await it.ask("GET", operation.path, key=bound)
                assert told.status in {200, 400, 403, 404}, str(operation)
                assert default_id not in str(told.body), str(operation)
                assert "'default'" not in str(told.body), str(operation)


async def test_the_document_says_what_is_needed(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        told = await document(it)
        assert told["openapi"].startswith("3.1")
        areas = {tag for operation in operations(told) for tag in operation.told["tags"]}
        assert len(areas) >= len(set(ROUTERS)) - 2
        ids = [operation.told["operationId"] for operation in operations(told)]
        assert len(ids) == len(set(ids))
        for operation in operations(told):
            assert operation.told["summary"], str(operation)
            assert operation.told["x-lamina-role"] in ROLES
            assert "application/problem+json" in operation.told["responses"]["401"]["content"]
            headers = {one["name"] for one in operation.told.get("parameters", []) if one["in"] == "header"}
            if operation.method in {"PUT", "DELETE"}:
                assert "Idempotency-Key" in headers, str(operation)
        for key in (None, KEY):
            assert (await it.ask("GET", "/openapi.json", key=key)).status in {401, 403}


@pytest.mark.parametrize("host", ["x/?", "x#", "x/admin", "x/v1/models?", "lamina@evil"])
async def test_a_host_header_opens_nothing(tmp_path: Path, redis_server: RedisServer, host: str) -> None:
    async with office(tmp_path, redis_server) as it, line(it.it) as opened:
        for path in (
            "/admin/v1/tenants",
            "/admin/v1/openapi.json",
            "/admin/v1/%2e%2e/models",
            "//admin/v1/tenants",
        ):
            await opened.send(message("GET", path, [("host", host)], b""))
            assert (await opened.reply()).status in {400, 401, 404}
