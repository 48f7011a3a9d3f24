"""`lamina modes show|set`."""

from collections.abc import Mapping

import click

from gateway.cli.administration import Office, Outcome, administer, json_option, show, shown_text, table
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import OverrideRepository, TenantRepository
from gateway.db.overrides import EVERY_TENANT
from gateway.db.records import MODES
from gateway.errors import SettingsError
from gateway.home import with_home_services
from gateway.routes import Routes
from gateway.settings import settings_from_environment

_LIFT = "settings"

tenant_option = click.option("--tenant", metavar="NAME", help="For one tenant; else for every one.")


@click.group()
def modes() -> None:
    """Manages in which mode routes are served now, over what the settings say."""


@modes.command(name="show")
@tenant_option
@json_option
def show_(tenant: str | None, as_json: bool) -> None:
    """Shows the modes that were set."""
    show(administer(lambda office: show_modes(office, tenant), advice=SEE_TENANTS), as_json=as_json)


@modes.command(name="set")
@click.argument("route")
@click.argument("mode", type=click.Choice([*MODES, _LIFT]))
@tenant_option
@json_option
def set_(route: str, mode: str, tenant: str | None, as_json: bool) -> None:
    """Has the route ROUTE (a model's name) served in MODE from the next request on; `settings` lifts that."""
    known = {one.name for one in Routes(with_home_services(settings_from_environment())).all()}
    if route not in known and mode != _LIFT:
        raise SettingsError(f"there is no route {route[:80]!r}; there are {', '.join(sorted(known))}")
    show(administer(lambda office: set_mode(office, tenant, route, mode), advice=SEE_TENANTS), as_json=as_json)


async def show_modes(office: Office, tenant: str | None) -> Outcome:
    """Reads the modes that were set for a tenant, or for all."""
    scope = EVERY_TENANT if tenant is None else (await TenantRepository(office.database).find(tenant)).tenant_id
    return _outcome(tenant, (await OverrideRepository(office.database).of(scope)).modes, announced=None)


async def set_mode(office: Office, tenant: str | None, route: str, mode: str) -> Outcome:
    """Changes one route's mode and announces it to whom it concerns."""
    overrides = OverrideRepository(office.database)
    scope = EVERY_TENANT if tenant is None else (await TenantRepository(office.database).find(tenant)).tenant_id
    wanted = dict((await overrides.of(scope)).modes)
    if mode == _LIFT:
        wanted.pop(route, None)
    else:
        wanted[route] = mode
    if tenant is None:
        heads = await overrides.set_modes_for_all(wanted, office.actor, office.now_s)
    else:
        state = await overrides.set_modes(scope, wanted, office.actor, office.now_s)
        heads = {state.tenant_id: (state.auth_seq, state.purge_seq)}
    return _outcome(tenant, wanted, announced=await office.announce_all(heads))


def _outcome(tenant: str | None, found: Mapping[str, str], *, announced: bool | None) -> Outcome:
    shown = table("route", "mode", "for")
    for route, mode in sorted(found.items()):
        shown.add_row(shown_text(route), mode, tenant or "every tenant")
    note = None if found else "none is set: every route is served as the settings say"
    return Outcome({"tenant": tenant, "modes": dict(found)}, shown, note, announced=announced)
