"""Overrides: set, read with the tenant's state in one statement, audited, and bumping whom they concern."""

import json

import pytest

from gateway.db import AuditRepository, Database, OverrideRepository, RecordError, TenantRecord, TenantRepository
from policies.limits import NO_LIMITS, Limits

SOME = Limits(requests_per_minute=60, concurrent=4)


async def test_limits_are_part_of_the_state(database: Database, tenant: TenantRecord) -> None:
    overrides = OverrideRepository(database)
    state = await overrides.set_limits("acme", SOME, "me", 1.0)
    assert (state.overrides.limits, state.auth_seq) == (SOME, 1)
    read = await TenantRepository(database).state(tenant.tenant_id)
    assert read is not None
    assert read.overrides.limits == SOME
    again = await overrides.set_limits("acme", SOME, "me", 2.0)
    assert again.auth_seq == 1
    gone = await overrides.set_limits(tenant.tenant_id, NO_LIMITS, "me", 3.0)
    assert (gone.overrides.limits, gone.auth_seq) == (NO_LIMITS, 2)
    rows = [row for row in await AuditRepository(database).since() if row.action == "limits.set"]
    assert [(row.actor, row.tenant_id, row.at) for row in rows] == [
        ("me", tenant.tenant_id, 1.0),
        ("me", tenant.tenant_id, 3.0),
    ]
    assert json.loads(rows[0].detail)["after"]["concurrent"] == 4


async def test_modes_of_a_tenant_stand_above_everybodys(database: Database, tenant: TenantRecord) -> None:
    overrides, tenants = OverrideRepository(database), TenantRepository(database)
    other = await tenants.create("other", "test", 1.0)
    await overrides.set_limits("acme", SOME, "me", 1.0)
    await overrides.set_modes("acme", {"m": "off"}, "me", 1.0)
    told = await overrides.set_modes_for_all({"m": "exact", "n": "observe"}, "me", 2.0)
    assert told == {tenant.tenant_id: (3, 0), other.tenant_id: (1, 0)}
    later = await tenants.create("later", "test", 3.0)
    seen = {}
    for one in (tenant, other, later):
        state = await tenants.state(one.tenant_id)
        assert state is not None
        seen[state.name] = (state.overrides.limits, dict(state.overrides.modes))
    everybodys = {"m": "exact", "n": "observe"}
    assert seen == {
        "acme": (SOME, {"m": "off", "n": "observe"}),
        "other": (NO_LIMITS, everybodys),
        "later": (NO_LIMITS, everybodys),
    }
    assert dict((await overrides.of(tenant.tenant_id)).modes) == {"m": "off"}
    assert (await overrides.set_modes_for_all(everybodys, "me", 4.0))[other.tenant_id] == (1, 0)


@pytest.mark.parametrize("modes", [{"m": "on"}, {"m\n": "off"}, dict.fromkeys(map(str, range(1001)), "off")])
async def test_what_is_no_mode_is_refused(database: Database, tenant: TenantRecord, modes: dict[str, str]) -> None:
    with pytest.raises(RecordError):
        await OverrideRepository(database).set_modes("acme", modes, "me", 1.0)
    with pytest.raises(RecordError):
        await OverrideRepository(database).set_modes_for_all(modes, "me", 1.0)
    assert (await OverrideRepository(database).of(tenant.tenant_id)).modes == {}


async def test_an_unknown_tenant(database: Database) -> None:
    with pytest.raises(RecordError, match="no tenant"):
        await OverrideRepository(database).set_limits("nobody", SOME, "me", 1.0)
