"""`lamina tokens create|list|revoke`."""

from typing import cast

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
from gateway.db import TOKEN_ROLES, TokenRecord, TokenRepository, TokenRole

_SEE_TOKENS = "`lamina tokens list` shows the ids"
_DAY_S = 86_400.0
_PAGE = 1000


@click.group()
def tokens() -> None:
    """Manages administrators' tokens for the API under /admin/v1; a token is shown once, when it is made."""


@tokens.command()
@click.option(
    "--role",
    type=click.Choice(TOKEN_ROLES),
    required=True,
    help="What its holder may do; each role may do what those before it may.",
)
@click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="Binds it to a tenant, repeatable.")
@click.option("--days", type=click.FloatRange(0, 3660, min_open=True), help="How long it opens anything.")
@click.option("--label", default="", help="Free text to know the token by.")
@json_option
def create(role: str, tenants: tuple[str, ...], days: float | None, label: str, *, as_json: bool) -> None:
    """Makes a token and prints it, this one time."""
    chosen = cast("TokenRole", role)
    outcome = administer(lambda office: create_token(office, chosen, tenants, days, label), advice=SEE_TENANTS)
    show(outcome, as_json=as_json)


@tokens.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """Lists tokens by id, revoked and expired ones too, with the last four characters of each."""
    show(administer(list_tokens), as_json=as_json)


@tokens.command()
@click.argument("token_id")
@json_option
def revoke(token_id: str, as_json: bool) -> None:
    """Shuts the token TOKEN_ID out for good, from the next request on."""
    show(administer(lambda office: revoke_token(office, token_id), advice=_SEE_TOKENS), as_json=as_json)


async def create_token(
    office: Office, role: TokenRole, tenants: tuple[str, ...], days: float | None, label: str
) -> Outcome:
    """Makes a token; workers look it up for each request, so nobody needs to be told."""
    until = None if days is None else office.now_s + days * _DAY_S
    made = TokenRepository(office.database).create(label, role, tenants or None, until, office.actor, office.now_s)
    record, secret = await made
    note = f"This is token {record.token_id}. Keep it now: it is stored as a digest and cannot be shown again."
    return Outcome({**_as_data(record), "token": secret}, secret, note=note)


async def list_tokens(office: Office) -> Outcome:
    """Lists tokens, without anything that opens."""
    repository, found = TokenRepository(office.database), list[TokenRecord]()
    while page := await repository.list(_PAGE, found[-1].token_id if found else ""):
        found += page
    shown = table("id", "label", "ends in", "role", "tenants", "created (UTC)", "until (UTC)", "revoked (UTC)")
    for token in found:
        shown.add_row(
            token.token_id,
            shown_text(token.label),
            shown_text(token.hint),
            token.role,
            "every one" if token.tenants is None else ", ".join(sorted(token.tenants)),
            shown_time(token.created_at),
            shown_time(token.expires_at),
            shown_time(token.revoked_at),
        )
    note = None if found else "there are no tokens yet: lamina tokens create --role reader"
    return Outcome({"tokens": [_as_data(token) for token in found]}, shown, note)


async def revoke_token(office: Office, token_id: str) -> Outcome:
    """Revokes a token, also one that was revoked before."""
    record = await TokenRepository(office.database).revoke(token_id, office.actor, office.now_s)
    return Outcome(_as_data(record), f"token {record.token_id} is revoked")


def _as_data(token: TokenRecord) -> dict[str, object]:
    return {
        "id": token.token_id,
        "label": token.label,
        "hint": token.hint,
        "role": token.role,
        "tenants": None if token.tenants is None else sorted(token.tenants),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }
