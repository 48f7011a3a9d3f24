"""`lamina tenants`, `lamina keys`, `lamina purge`, as an operator meets them."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from gateway.db import AuditRepository, Database, PurgeRepository, TenantRepository, key_digest
from tests.gateway.cli.conftest import Lamina


def test_from_an_empty_home_to_a_key_that_opens(lamina: Lamina, home: Path) -> None:
    made = lamina("tenants", "create", "acme")
    assert (made.status, made.out) == (0, "tenant acme created\n")
    assert "lamina keys create --tenant acme" in made.err
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    key = lamina("keys", "create", "--tenant", "acme", "--label", "laptop")
    assert key.status == 0
    assert key.out.startswith("lam_")
    assert key.out.count("\n") == 1, "standard output is the key alone, ready for a script"
    assert "cannot be shown again" in key.err

    async def owner() -> str | None:
        database = Database.open(f"sqlite:///{home}/lamina.db", deadline_s=20)
        state = await TenantRepository(database).by_key_digest(key_digest(key.out.strip()))
        await database.close()
        return state.name if state else None

    assert asyncio.run(owner()) == "acme"


def test_lists_never_hold_a_key(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    made = json.loads(lamina("keys", "create", "--tenant", "acme", "--label", "[red]:x:[/red]", "--json").out)
    for arguments in (("keys", "list", "--tenant", "acme"), ("keys", "list", "--tenant", "acme", "--json")):
        listed = lamina(*arguments)
        assert made["key"] not in listed.out
        assert key_digest(made["key"]).hex() not in listed.out
        assert made["id"] in listed.out
        assert "[red]:x:[/red]" in listed.out
    (key,) = json.loads(listed.out)["keys"]
    assert key["hint"] == made["key"][-4:]


def test_a_revoked_key_and_tenant_are_shown_so(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    made = json.loads(lamina("keys", "create", "--tenant", "acme", "--json").out)
    for _ in range(2):
        revoked = lamina("keys", "revoke", made["id"])
        assert (revoked.status, revoked.out) == (0, f"key {made['id']} of tenant acme is revoked\n")
    (key,) = json.loads(lamina("keys", "list", "--tenant", "acme", "--json").out)["keys"]
    assert key["revoked_at"] is not None
    assert lamina("tenants", "revoke", "acme").status == 0
    (tenant,) = json.loads(lamina("tenants", "list", "--json").out)["tenants"]
    assert tenant["revoked_at"] is not None
    refused = lamina("keys", "create", "--tenant", "acme")
    assert refused.status == 1
    assert refused.err == "error: tenant 'acme' is revoked and takes no new keys\n"


def test_an_empty_list_says_what_to_do(lamina: Lamina) -> None:
    listed = lamina("tenants", "list")
    assert listed.status == 0
    assert "lamina tenants create NAME" in listed.err
    lamina("tenants", "create", "acme")
    assert "lamina keys create --tenant acme" in lamina("keys", "list", "--tenant", "acme").err


@pytest.mark.parametrize(
    ("scope", "kind", "value"),
    [
        (["--all"], "all", ""),
        (["--key", "0f" * 32], "key", "0f" * 32),
        (["--tag", "red"], "tag", "red"),
        (["--model", "smollm2"], "model", "smollm2"),
        (["--user", "ann"], "user", "ann"),
        (["--version", "prompt=3"], "version", "prompt=3"),
        (["--version", "prompt=*"], "versions", "prompt=*"),
        (["--version", "prompt<3"], "versions", "prompt<3"),
        (["--session", "s1"], "session", "s1"),
        (["--route", "m"], "route", "m"),
        (["--entry", "0F" * 32], "key", "0f" * 32),
        (["--age", "2020-01-01T00:00:00Z"], "age", "1577836800.000"),
    ],
)
def test_each_scope_is_one_row_of_the_log(
    lamina: Lamina, home: Path, scope: list[str], kind: str, value: str
) -> None:
    lamina("tenants", "create", "acme")
    done = lamina("purge", "--tenant", "acme", *scope, "--soft", "--reason", "why", "--json")
    assert done.status == 0
    said = json.loads(done.out)
    assert (said["seq"], said["kind"], said["value"], said["mode"]) == (1, kind, value, "soft")
    assert said["announced"] is True

    async def log() -> list[tuple[object, ...]]:
        database = Database.open(f"sqlite:///{home}/lamina.db", deadline_s=20)
        rows = await PurgeRepository(database).since(said["tenant_id"], 0)
        actors = [row.actor for row in await AuditRepository(database).since()]
        await database.close()
        assert all(actor.startswith("cli:") for actor in actors)
        return [(row.seq, row.kind, row.value, row.mode, row.reason) for row in rows]

    assert asyncio.run(log()) == [(1, kind, value, "soft", "why")]


def test_a_purge_is_hard_unless_told_and_prints_its_number(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    assert lamina("purge", "--tenant", "acme", "--all").out == "purge 1 of tenant acme: everything (hard)\n"
    assert lamina("purge", "--tenant", "acme", "--tag", "a").out == "purge 2 of tenant acme: tag a (hard)\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["purge", "--tenant", "acme"],
        ["purge", "--tenant", "acme", "--all", "--tag", "x"],
        ["purge", "--tenant", "acme", "--tag", "x", "--soft", "--model", "m"],
        ["purge", "--all"],
        ["purge", "--tenant", "acme", "--near", "refunds"],
        ["purge", "--tenant", "acme", "--tag", "x", "--count", "3"],
        ["keys", "create"],
        ["tenants", "create"],
        ["tenants", "nonsense"],
    ],
)
def test_wrong_usage_exits_2_and_touches_nothing(lamina: Lamina, home: Path, arguments: list[str]) -> None:
    assert lamina(*arguments).status == 2
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["purge", "--tenant", "nope", "--all"], "`lamina tenants list`"),
        (["keys", "create", "--tenant", "nope"], "`lamina tenants list`"),
        (["keys", "list", "--tenant", "nope"], "`lamina tenants list`"),
        (["tenants", "revoke", "nope"], "`lamina tenants list`"),
        (["keys", "revoke", "nope"], "`lamina keys list --tenant NAME`"),
        (["tenants", "create", "Not A Name"], "use 1 to 63 of"),
        (["purge", "--tenant", "acme", "--version", "prompt"], "name=value"),
        (["purge", "--tenant", "acme", "--key", "beef"], "64 hexadecimal digits"),
        (["tenants", "create", "acme"], "already"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_helps(lamina: Lamina, arguments: list[str], told: str) -> None:
    lamina("tenants", "create", "acme")
    refused = lamina(*arguments)
    assert refused.status == 1
    assert refused.out == ""
    assert refused.err.startswith("error: ")
    assert refused.err.count("\n") == 1
    assert told in refused.err


def test_a_database_that_is_away_is_one_line_without_the_password(
    lamina: Lamina, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:hidden-pw@127.0.0.1:1/lamina")
    failed = lamina("tenants", "list")
    assert failed.status == 1
    assert failed.err.startswith("error: the database did not answer")
    assert failed.err.count("\n") == 1
    assert "hidden-pw" not in failed.err


def test_a_home_that_cannot_be_made_is_named(lamina: Lamina, home: Path) -> None:
    home.write_text("a file where the home should be")
    failed = lamina("tenants", "list")
    assert failed.status == 1
    assert str(home) in failed.err
