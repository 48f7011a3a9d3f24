"""`lamina tenants create|list|revoke`."""

import click

from gateway.cli.administration import Office, Outcome, administer, json_option, show, shown_time, table
from gateway.db import TenantRecord, TenantRepository

SEE_TENANTS = "`lamina tenants list` shows the tenants"


@click.group()
def tenants() -> None:
    """Manages tenants: who may ask, each with a cache of its own."""


@tenants.command()
@click.argument("name")
@json_option
def create(name: str, as_json: bool) -> None:
    """Creates the tenant NAME (a-z, 0-9, '.', '_' and '-')."""
    show(administer(lambda office: create_tenant(office, name)), as_json=as_json)


@tenants.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """Lists all tenants, revoked ones too."""
    show(administer(list_tenants), as_json=as_json)


@tenants.command()
@click.argument("name")
@json_option
def revoke(name: str, as_json: bool) -> None:
    """Shuts the tenant NAME out with all its keys, for good; its records stay."""
    show(administer(lambda office: revoke_tenant(office, name), advice=SEE_TENANTS), as_json=as_json)


async def create_tenant(office: Office, name: str) -> Outcome:
    """Creates a tenant; nobody needs to be told, since nobody knows it."""
    tenant = await TenantRepository(office.database).create(name, office.actor, office.now_s)
    return Outcome(
        _as_data(tenant),
        f"tenant {tenant.name} created",
        note=f"next: lamina keys create --tenant {tenant.name}",
    )


async def list_tenants(office: Office) -> Outcome:
    """Lists tenants by name."""
    found = await TenantRepository(office.database).list()
    shown = table("name", "id", "created (UTC)", "revoked (UTC)", "purges")
    for tenant in found:
        shown.add_row(
            tenant.name,
            tenant.tenant_id,
            shown_time(tenant.created_at),
            shown_time(tenant.disabled_at),
            str(tenant.purge_seq),
        )
    note = None if found else "there are no tenants yet: lamina tenants create NAME"
    return Outcome({"tenants": [_as_data(tenant) for tenant in found]}, shown, note)


async def revoke_tenant(office: Office, name: str) -> Outcome:
    """Disables a tenant and announces it, also when it was disabled before."""
    state = await TenantRepository(office.database).disable(name, office.actor, office.now_s)
    announced = await office.announce(state.tenant_id, state.auth_seq, state.purge_seq)
    data = {"id": state.tenant_id, "name": state.name, "revoked": state.disabled}
    return Outcome(data, f"tenant {state.name} is revoked, with all its keys", announced=announced)


def _as_data(tenant: TenantRecord) -> dict[str, object]:
    return {
        "id": tenant.tenant_id,
        "name": tenant.name,
        "created_at": tenant.created_at,
        "revoked_at": tenant.disabled_at,
        "auth_seq": tenant.auth_seq,
        "purge_seq": tenant.purge_seq,
    }
