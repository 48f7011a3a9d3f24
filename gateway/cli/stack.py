"""`lamina stack`: what the docker-compose stack runs once, before its gateways."""

import asyncio
import json

import click

from gateway.cli.administration import json_option
from gateway.errors import SettingsError
from gateway.home import with_home_services
from gateway.settings import settings_from_environment
from gateway.supervisor.banner import example
from gateway.supervisor.checks import check
from gateway.supervisor.first_key import first_key

_DATABASE_WITHIN_S = 60.0


@click.group()
def stack() -> None:
    """Prepares a set that runs as a stack of containers."""


@stack.command()
@click.option(
    "--url",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="Where clients will find the gateway; shown in the example.",
)
@click.option(
    "--within",
    type=click.FloatRange(min=0),
    default=_DATABASE_WITHIN_S,
    show_default=True,
    help="Seconds to wait for the database.",
)
@json_option
def init(url: str, within: float, *, as_json: bool) -> None:
    """Makes the tables, the tenant `default` and its first key, which is shown once.

    Running it again changes nothing but tables of an older release. Settings come from the same variables as the
    gateway's.
    """
    settings = settings_from_environment()
    if settings.database_url is None:
        raise SettingsError("lamina stack init: set DATABASE_URL, or DATABASE_URL_FILE, to the stack's database")
    settings = with_home_services(settings)
    check(settings)
    key = asyncio.run(first_key(settings, within))
    if as_json:
        click.echo(json.dumps({"key": key}))
    elif key is None or settings.bootstrap_key is not None:
        click.echo("The database is ready; keys exist already. `lamina keys create --tenant NAME` makes another.")
    else:
        click.echo(f"Your first API key, shown only now: {key}")
        click.echo("  Once the gateway answers, try it, twice; the second answer comes from the cache:")
        click.echo(example(settings, url, key))
