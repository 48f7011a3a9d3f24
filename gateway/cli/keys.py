"""`lamina keys create|list|revoke`."""

import click

from gateway.cli.administration import (
    Office,
    Outcome,
    administer,
    json_option,
    show,
    shown_text,
    shown_time,
    table,
)
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import KeyRecord, KeyRepository, TenantRepository
from gateway.errors import DatabaseUnavailable

_SEE_KEYS = "`lamina keys list --tenant NAME` shows the ids"

tenant_option = click.option("--tenant", required=True, metavar="NAME", help="Whose key: a tenant's name.")


@click.group()
def keys() -> None:
    """Manages API keys; a key is shown once, when it is made."""


@keys.command()
@tenant_option
@click.option("--label", default="", help="Free text to know the key by.")
@json_option
def create(tenant: str, label: str, as_json: bool) -> None:
    """Makes a key and prints it, this one time."""
    show(administer(lambda office: create_key(office, tenant, label), advice=SEE_TENANTS), as_json=as_json)


@keys.command(name="list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """Lists a tenant's keys by id, with the last four characters of each."""
    show(administer(lambda office: list_keys(office, tenant), advice=SEE_TENANTS), as_json=as_json)


@keys.command()
@click.argument("key_id")
@json_option
def revoke(key_id: str, as_json: bool) -> None:
    """Shuts the key KEY_ID out for good, from the next request on."""
    show(administer(lambda office: revoke_key(office, key_id), advice=_SEE_KEYS), as_json=as_json)


async def create_key(office: Office, tenant: str, label: str) -> Outcome:
    """Makes a key; whatever fails after it is stored, the key is still shown."""
    record, secret = await KeyRepository(office.database).create(tenant, label, office.actor, office.now_s)
    return Outcome(
        {**_as_data(record), "key": secret},
        secret,
        note=f"This is key {record.key_id}. Keep it now: it is stored as a digest and cannot be shown again.",
        announced=await _announce_current(office, record.tenant_id),
    )


async def list_keys(office: Office, tenant: str) -> Outcome:
    """Lists keys, oldest first, without anything that opens."""
    found = await KeyRepository(office.database).list(tenant)
    shown = table("id", "label", "ends in", "created (UTC)", "revoked (UTC)")
    for key in found:
        shown.add_row(
            key.key_id,
            shown_text(key.label),
            shown_text(key.hint),
            shown_time(key.created_at),
            shown_time(key.revoked_at),
        )
    note = None if found else f"tenant {tenant} has no keys yet: lamina keys create --tenant {tenant}"
    return Outcome({"keys": [_as_data(key) for key in found]}, shown, note)


async def revoke_key(office: Office, key_id: str) -> Outcome:
    """Revokes a key and announces it, also when it was revoked before."""
    state = await KeyRepository(office.database).revoke(key_id, office.actor, office.now_s)
    announced = await office.announce(state.tenant_id, state.auth_seq, state.purge_seq)
    data = {"id": key_id, "tenant_id": state.tenant_id, "revoked": True}
    return Outcome(data, f"key {key_id} of tenant {state.name} is revoked", announced=announced)


async def _announce_current(office: Office, tenant_id: str) -> bool:
    try:
        state = await TenantRepository(office.database).state(tenant_id)
    except DatabaseUnavailable:
        return False
    return state is not None and await office.announce(tenant_id, state.auth_seq, state.purge_seq)


def _as_data(key: KeyRecord) -> dict[str, object]:
    return {
        "id": key.key_id,
        "tenant_id": key.tenant_id,
        "label": key.label,
        "hint": key.hint,
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }
