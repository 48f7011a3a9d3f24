"""Administrators' tokens: shown once, stored as digests, bound, ended, revoked, audited."""

import json

import pytest

from gateway.db import AuditRepository, Database, RecordError, TenantRecord, TokenRepository, key_digest


async def test_a_token_is_found_by_its_digest_alone(database: Database, tenant: TenantRecord) -> None:
    tokens = TokenRepository(database)
    record, token = await tokens.create("ci", "operator", ["acme"], 50.0, "me", 1.0)
    assert token.startswith("lat_")
    assert token not in repr(record)
    assert await tokens.by_digest(key_digest(token)) == record
    assert await tokens.by_digest(key_digest(token + "x")) is None
    assert record.tenants == frozenset({tenant.tenant_id})
    assert (record.opens(49.9), record.opens(50.0)) == (True, False)
    assert record.hint == token[-4:]


async def test_revoking_is_for_good_and_said_once(database: Database) -> None:
    tokens = TokenRepository(database)
    record, token = await tokens.create("", "admin", None, None, "me", 1.0)
    gone = await tokens.revoke(record.token_id, "you", 2.0)
    assert (gone.revoked_at, gone.opens(2.0)) == (2.0, False)
    assert (await tokens.revoke(record.token_id, "you", 3.0)).revoked_at == 2.0
    rows = [row for row in await AuditRepository(database).since() if row.action.startswith("token.")]
    assert [(row.action, row.actor, row.tenant_id, row.target) for row in rows] == [
        ("token.create", "me", None, record.token_id),
        ("token.revoke", "you", None, record.token_id),
    ]
    assert token not in str(rows)
    assert json.loads(rows[0].detail)["role"] == "admin"


async def test_lists_by_id_in_parts(database: Database) -> None:
    tokens = TokenRepository(database)
    made = sorted([(await tokens.create("", "reader", None, None, "me", 1.0))[0].token_id for _ in range(5)])
    assert [token.token_id for token in await tokens.list(2)] == made[:2]
    assert [token.token_id for token in await tokens.list(9, made[1])] == made[2:]


@pytest.mark.parametrize(
    ("role", "tenants", "expires_at", "reason"),
    [
        ("root", None, None, "invalid"),
        ("reader", [], None, "invalid"),
        ("reader", ["nobody"], None, "not_found"),
        ("reader", None, 1.0, "invalid"),
        ("reader", None, float("inf"), "invalid"),
        ("reader", None, float("nan"), "invalid"),
    ],
)
async def test_what_is_no_token_is_refused(
    database: Database, role: str, tenants: list[str] | None, expires_at: float | None, reason: str
) -> None:
    with pytest.raises(RecordError) as refused:
        await TokenRepository(database).create("", role, tenants, expires_at, "me", 1.0)  # type: ignore[arg-type]
    assert refused.value.reason == reason
    assert await TokenRepository(database).list() == []


async def test_an_unknown_id_is_told(database: Database) -> None:
    for odd in ("A0000000000000000", "nobody", "A\n", "x" * 300):
        with pytest.raises(RecordError, match="no token"):
            await TokenRepository(database).revoke(odd, "me", 1.0)
