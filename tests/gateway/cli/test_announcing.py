"""Each change is told to the workers; when that fails, the change stands and the command says so."""

import json

import click
import pytest
import redis

from gateway.cli.administration import UNANNOUNCED, Office, Outcome, show
from gateway.cli.keys import create_key, revoke_key
from gateway.cli.purge import Scope, append_purge
from gateway.cli.tenants import create_tenant, revoke_tenant
from gateway.db import KeyRepository, TenantRepository
from gateway.layers.exact import auth_key, purge_key
from tests.gateway.cli.conftest import Lamina, ToldAnnouncer
from tests.servers.redis import RedisServer


async def test_each_change_is_told_with_the_sequences_it_left(office: Office, announcer: ToldAnnouncer) -> None:
    tenant_id = (await create_tenant(office, "acme")).data["id"]
    assert announcer.told == [], "nobody knows a new tenant"
    made = await create_key(office, "acme", "")
    await append_purge(office, "acme", Scope("all", ""), "hard", "")
    await append_purge(office, "acme", Scope("tag", "a"), "hard", "")
    await revoke_key(office, made.data["id"])
    await revoke_tenant(office, "acme")
    assert announcer.told == [(tenant_id, *seqs) for seqs in ((1, 0), (1, 1), (1, 2), (2, 2), (3, 2))]


async def test_what_could_not_be_told_stands_and_a_repeat_tells_it(
    office: Office, announcer: ToldAnnouncer
) -> None:
    tenant_id = (await create_tenant(office, "acme")).data["id"]
    announcer.away = True
    made = await create_key(office, "acme", "")
    assert made.announced is False
    assert made.data["key"].startswith("lam_"), "the key exists, so it must be shown"
    for outcome in (
        await append_purge(office, "acme", Scope("all", ""), "hard", ""),
        await revoke_key(office, made.data["id"]),
        await revoke_tenant(office, "acme"),
    ):
        assert outcome.announced is False
    (key,) = await KeyRepository(office.database).list("acme")
    assert key.revoked
    state = await TenantRepository(office.database).state(tenant_id)
    assert state is not None
    assert (state.disabled, state.auth_seq, state.purge_seq) == (True, 3, 1)
    announcer.away = False
    assert (await revoke_key(office, made.data["id"])).announced is True
    assert announcer.told == [(tenant_id, 3, 1)]


@pytest.mark.parametrize("as_json", [False, True])
def test_an_unannounced_change_is_shown_and_exits_1(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    @click.command()
    def command() -> None:
        show(Outcome({"key": "lam_x"}, "lam_x", announced=False), as_json=as_json)

    with pytest.raises(SystemExit) as ended:
        command(args=[])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err == f"error: {UNANNOUNCED}\n"
    if as_json:
        assert json.loads(said.out) == {"key": "lam_x", "announced": False}
    else:
        assert said.out == "lam_x\n"


def test_the_program_tells_a_real_redis(
    lamina: Lamina, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    tenant_id = json.loads(lamina("tenants", "create", "acme", "--json").out)["id"]
    assert lamina("keys", "create", "--tenant", "acme").status == 0
    assert json.loads(lamina("purge", "--tenant", "acme", "--all", "--json").out)["announced"] is True
    with redis.Redis(unix_socket_path=str(redis_server.socket_path)) as client:
        assert int(client.get(auth_key(tenant_id))) == 1
        assert int(client.get(purge_key(tenant_id))) == 1
