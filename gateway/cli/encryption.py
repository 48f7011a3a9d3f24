"""`lamina encryption status|rotate`."""

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from gateway.cli.administration import Office, Outcome, administer, json_option, show, shown_time, table
from gateway.cli.data_keys import fresh_key, rewrapper
from gateway.db import DataKeyRecord, DataKeyRepository, TenantRepository
from gateway.errors import SettingsError
from gateway.home import Home
from gateway.settings import Settings, settings_from_environment
from gateway.supervisor.open_home import held_home, write_private
from policies.encryption import MasterKeys, master_keys


@dataclass(frozen=True, slots=True)
class Given:
    """The master keys, and the file of the home that keeps them; None where the settings give them."""

    masters: MasterKeys
    file: Path | None


@click.group()
def encryption() -> None:
    """Shows and rotates the keys that stored answers are encrypted under."""


@encryption.command()
@json_option
def status(as_json: bool) -> None:
    """Shows which master key is in use, and how many data keys each of them wraps."""
    given = _given(settings_from_environment())
    show(administer(lambda office: _status(office, given)), as_json=as_json)


@encryption.command()
@click.option(
    "--data-keys", is_flag=True, help="Give tenants new data keys; the old ones still open what they sealed."
)
@click.option("--tenant", metavar="NAME", help="With --data-keys: only this tenant.")
@json_option
def rotate(data_keys: bool, tenant: str | None, as_json: bool) -> None:
    """Wraps every data key by the master key in use, so that older master keys can be thrown away.

    Where the home keeps the master key, a new one is made first; the set must be stopped meanwhile.
    """
    if tenant is not None and not data_keys:
        raise click.UsageError("--tenant goes with --data-keys")
    settings = settings_from_environment()
    given = _given(settings)
    if given is None:
        raise SettingsError("there is no master key: set LAMINA_ENCRYPTION__MASTER_KEY")
    if data_keys:
        outcome = administer(lambda office: _renewed(office, given.masters, tenant))
    elif given.file is None:
        outcome = administer(lambda office: _rewrapped(office, given.masters))
    else:
        outcome = _rotated_at_home(settings, given.file)
    show(outcome, as_json=as_json)


def _given(settings: Settings) -> Given | None:
    key = settings.encryption.master_key
    if key is not None:
        return Given(master_keys(key.get_secret_value()), None)
    file = Home(settings.home.expanduser().absolute()).master_key
    if settings.database_url is not None or not file.is_file():
        return None
    try:
        return Given(master_keys(file.read_text("utf-8")), file)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from None


async def _status(office: Office, given: Given | None) -> Outcome:
    records = await DataKeyRepository(office.database).all()
    in_use = None if given is None else given.masters.current.key_id
    known = set() if given is None else {one.key_id for one in (given.masters.current, *given.masters.older)}
    live = [record for record in records if record.wrapped is not None]
    by_master = Counter(record.master_id for record in live)
    shown = table("master key", "state", "data keys", "newest (UTC)")
    for master_id, count in sorted(by_master.items()):
        state = "in use" if master_id == in_use else "older" if master_id in known else "not here"
        newest = max(record.created_at for record in live if record.master_id == master_id)
        shown.add_row(master_id, state, str(count), shown_time(newest))
    data = {
        "encrypts": in_use is not None,
        "master_key": in_use,
        "older": sorted(known - {in_use}),
        "data_keys": dict(by_master),
        "unopenable": sum(count for master_id, count in by_master.items() if master_id not in known),
        "tenants": len({record.tenant_id for record in live}),
        "destroyed": len(records) - len(live),
    }
    return Outcome(data, shown, note=_advice(data, in_use))


def _advice(data: Mapping[str, object], in_use: str | None) -> str:
    if in_use is None:
        return (
            "nothing is encrypted: set LAMINA_ENCRYPTION__MASTER_KEY, or run `lamina serve` with its own database"
        )
    if data["unopenable"]:
        return f"{data['unopenable']} data keys are wrapped by a master key that is not here: their cache is lost"
    return f"master key {in_use} is in use; {data['destroyed']} data keys were destroyed"


async def _rewrapped(office: Office, masters: MasterKeys) -> Outcome:
    keys = DataKeyRepository(office.database)
    lost: list[DataKeyRecord] = []
    count = await keys.rewrap(rewrapper(masters, lost.append), office.actor, office.now_s)
    data = {"master_key": masters.current.key_id, "rewrapped": count, "unopenable": len(lost)}
    note = f"{len(lost)} are wrapped by a master key that is not here" if lost else None
    return Outcome(data, f"{count} data keys are now wrapped by master key {masters.current.key_id}", note)


def _rotated_at_home(settings: Settings, file: Path) -> Outcome:
    """A new master key in the home: written beside the old one, which is dropped once everything is re-wrapped."""
    with held_home(Home(settings.home.expanduser().absolute())):
        lines = file.read_text("utf-8").split()
        if len(lines) == 1:
            lines = [secrets.token_urlsafe(48), *lines]
            write_private(file, "\n".join(lines) + "\n")
        masters = master_keys("\n".join(lines))
        outcome = administer(lambda office: _rewrapped(office, masters))
        if not outcome.data["unopenable"]:
            write_private(file, lines[0] + "\n")
    return outcome


async def _renewed(office: Office, masters: MasterKeys, tenant: str | None) -> Outcome:
    tenants = TenantRepository(office.database)
    chosen = [await tenants.find(tenant)] if tenant is not None else await tenants.list()
    keys, announced = DataKeyRepository(office.database), True
    renewed = []
    for one in chosen:
        if one.disabled_at is not None:
            continue
        await keys.add(fresh_key(masters, one.tenant_id, office.now_s), office.actor, replacing=True)
        state = await tenants.state(one.tenant_id)
        if state is not None:
            announced &= await office.announce(one.tenant_id, state.auth_seq, state.purge_seq)
        renewed.append(one.tenant_id)
    return Outcome({"renewed": renewed}, f"{len(renewed)} tenants have new data keys", announced=announced)
