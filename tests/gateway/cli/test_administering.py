"""`lamina tokens`, `limits`, `modes` and `audit`, as an operator meets them."""

import json

import pytest

from gateway.cli.administration import Office
from gateway.cli.limits import set_limits
from gateway.cli.modes import set_mode
from gateway.db import KeyRepository, OverrideRepository, TenantRepository, key_digest
from tests.gateway.cli.conftest import Lamina, ToldAnnouncer


def test_a_token_is_shown_once(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    made = lamina("tokens", "create", "--role", "operator", "--tenant", "acme", "--days", "30", "--label", "hook")
    assert made.status == 0
    assert made.out.startswith("lat_")
    assert made.out.count("\n") == 1
    assert "cannot be shown again" in made.err
    for arguments in (("tokens", "list"), ("tokens", "list", "--json")):
        listed = lamina(*arguments)
        assert made.out.strip() not in listed.out
        assert key_digest(made.out.strip()).hex() not in listed.out
        assert "hook" in listed.out
    (token,) = json.loads(listed.out)["tokens"]
    assert (token["role"], len(token["tenants"]), token["revoked_at"]) == ("operator", 1, None)
    assert token["expires_at"] - token["created_at"] == pytest.approx(30 * 86_400)
    gone = lamina("tokens", "revoke", token["id"])
    assert (gone.status, gone.out) == (0, f"token {token['id']} is revoked\n")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("tokens", "create"), 2),
        (("tokens", "create", "--role", "root"), 2),
        (("tokens", "create", "--role", "reader", "--days", "0"), 2),
        (("tokens", "create", "--role", "reader", "--tenant", "nobody"), 1),
        (("tokens", "revoke", "A0000000000000000"), 1),
        (("limits", "set", "acme"), 2),
        (("limits", "set", "acme", "--concurrent", "-1"), 2),
        (("limits", "set", "acme", "--concurrent", "some"), 2),
        (("limits", "show", "nobody"), 1),
        (("modes", "set", "smollm2", "on"), 2),
        (("modes", "set", "unknown", "off"), 1),
        (("audit", "--since", "yesterday"), 2),
        (("audit", "--tenant", "nobody"), 1),
    ],
)
def test_what_is_asked_wrongly_is_said(lamina: Lamina, arguments: tuple[str, ...], status: int) -> None:
    lamina("tenants", "create", "acme")
    ran = lamina(*arguments)
    assert (ran.status, ran.out) == (status, "")
    assert "rror:" in ran.err


def test_limits_are_set_one_by_one_and_lifted(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    set_ = json.loads(lamina("limits", "set", "acme", "--requests-per-minute", "600", "--json").out)
    assert (set_["requests_per_minute"], set_["announced"]) == (600, True)
    lamina("limits", "set", "acme", "--concurrent", "8")
    shown = json.loads(lamina("limits", "show", "acme", "--json").out)
    assert shown == {"tenant": "acme", "requests_per_minute": 600, "tokens_per_day": None, "concurrent": 8}
    table = lamina("limits", "set", "acme", "--requests-per-minute", "none")
    assert "none" in table.out
    assert json.loads(lamina("limits", "show", "acme", "--json").out)["requests_per_minute"] is None


def test_modes_are_set_for_one_or_all(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    everybody = json.loads(lamina("modes", "set", "smollm2", "observe", "--json").out)
    assert everybody == {"tenant": None, "modes": {"smollm2": "observe"}, "announced": True}
    lamina("modes", "set", "smollm2", "off", "--tenant", "acme")
    shown = json.loads(lamina("modes", "show", "--tenant", "acme", "--json").out)
    assert shown["modes"] == {"smollm2": "off"}
    lamina("modes", "set", "smollm2", "settings")
    assert "none is set" in lamina("modes", "show").err


def test_the_audit_says_who_did_what(lamina: Lamina) -> None:
    lamina("tenants", "create", "acme")
    lamina("tenants", "create", "other")
    lamina("keys", "create", "--tenant", "acme")
    lamina("limits", "set", "acme", "--concurrent", "8")
    rows = json.loads(lamina("audit", "--json").out)["audit"]
    assert [row["action"] for row in rows] == ["limits.set", "key.create", "tenant.create", "tenant.create"]
    assert all(row["actor"].startswith("cli:") for row in rows)
    rows = json.loads(lamina("audit", "--tenant", "acme", "--action", "tenant.", "--json").out)["audit"]
    assert [row["detail"]["name"] for row in rows] == ["acme"]
    assert json.loads(lamina("audit", "--until", "2020-01-01", "--json").out)["audit"] == []
    assert len(json.loads(lamina("audit", "--limit", "2", "--json").out)["audit"]) == 2
    assert "limits.set" in lamina("audit").out


async def test_changes_are_announced_to_whom_they_concern(office: Office, announcer: ToldAnnouncer) -> None:
    tenants = TenantRepository(office.database)
    made = [await tenants.create(name, "test", 1.0) for name in ("one", "two")]
    await KeyRepository(office.database).create("one", "", "test", 1.0)
    outcome = await set_limits(office, "one", {"concurrent": 4})
    assert outcome.announced
    await set_mode(office, None, "m", "off")
    assert announcer.told == [
        (made[0].tenant_id, 2, 0),
        (made[0].tenant_id, 3, 0),
        (made[1].tenant_id, 1, 0),
    ]
    announcer.away = True
    assert (await set_mode(office, "two", "m", "exact")).announced is False
    assert (await OverrideRepository(office.database).of(made[1].tenant_id)).modes == {"m": "exact"}
