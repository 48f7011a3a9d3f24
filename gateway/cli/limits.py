"""`lamina limits show|set`."""

import click

from gateway.cli.administration import Office, Outcome, administer, json_option, show, table
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import OverrideRepository, TenantRepository
from policies.limits import MOST, Limits

_NAMES = {
    "requests_per_minute": "requests a minute",
    "tokens_per_day": "tokens a day",
    "concurrent": "requests at a time",
}
_MAX_DIGITS = 18


class BoundOrNone(click.ParamType[int | str]):
    """A whole number, or `none`."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or `none` itself."""
        text = str(value)
        if text == "none":
            return text
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) <= MOST):
            self.fail(f"{text[:40]!r} is neither a whole number up to {MOST} nor none", param, ctx)
        return int(text)


@click.group()
def limits() -> None:
    """Manages what a tenant may use; docs/admin-api.md says how it is counted."""


@limits.command(name="show")
@click.argument("tenant")
@json_option
def show_(tenant: str, as_json: bool) -> None:
    """Shows the limits of the tenant TENANT."""
    show(administer(lambda office: show_limits(office, tenant), advice=SEE_TENANTS), as_json=as_json)


@limits.command(name="set")
@click.argument("tenant")
@click.option("--requests-per-minute", type=BoundOrNone(), help="Chat requests in 60 seconds; none lifts it.")
@click.option("--tokens-per-day", type=BoundOrNone(), help="Tokens that models process in a day; none lifts it.")
@click.option("--concurrent", type=BoundOrNone(), help="Requests under way at a time; none lifts it.")
@json_option
def set_(
    tenant: str,
    *,
    requests_per_minute: int | str | None,
    tokens_per_day: int | str | None,
    concurrent: int | str | None,
    as_json: bool,
) -> None:
    """Sets limits of the tenant TENANT, from its next request on; those that are not named stay as they are."""
    bounds = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_day": tokens_per_day,
        "concurrent": concurrent,
    }
    given = {name: None if bound == "none" else bound for name, bound in bounds.items() if bound is not None}
    if not given:
        raise click.UsageError("give at least one of --requests-per-minute, --tokens-per-day and --concurrent")
    show(administer(lambda office: set_limits(office, tenant, given), advice=SEE_TENANTS), as_json=as_json)


async def show_limits(office: Office, tenant: str) -> Outcome:
    """Reads a tenant's limits."""
    owner = await TenantRepository(office.database).find(tenant)
    return _outcome(owner.name, (await OverrideRepository(office.database).of(owner.tenant_id)).limits)


async def set_limits(office: Office, tenant: str, given: dict[str, int | str | None]) -> Outcome:
    """Changes some of a tenant's limits and announces it."""
    overrides = OverrideRepository(office.database)
    owner = await TenantRepository(office.database).find(tenant)
    before = (await overrides.of(owner.tenant_id)).limits.as_json()
    merged = {name: bound for name, bound in (before | given).items() if isinstance(bound, int)}
    wanted = Limits(merged.get("requests_per_minute"), merged.get("tokens_per_day"), merged.get("concurrent"))
    state = await overrides.set_limits(owner.tenant_id, wanted, office.actor, office.now_s)
    announced = await office.announce(state.tenant_id, state.auth_seq, state.purge_seq)
    return _outcome(owner.name, wanted, announced=announced)


def _outcome(tenant: str, limits_: Limits, *, announced: bool | None = None) -> Outcome:
    shown = table("limit", "of tenant " + tenant)
    for name, bound in limits_.as_json().items():
        shown.add_row(_NAMES[name], "none" if bound is None else f"{bound:,}")
    return Outcome({"tenant": tenant, **limits_.as_json()}, shown, announced=announced)
