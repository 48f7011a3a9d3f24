"""`lamina ledger`, `lamina break-even`."""

import urllib.error
import urllib.request
from typing import Any

import click
from msgspec import to_builtins
from rich.console import Group
from rich.table import Table

from gateway.cli.administration import Office, Outcome, administer, json_option, shown_text, table
from gateway.cli.administration import show as print_outcome
from gateway.cli.gateway_client import gateway_url
from gateway.db import LedgerQuery, LedgerRepository, TenantRepository
from gateway.errors import LaminaError, SettingsError
from gateway.ledger.accounts import DIMENSIONS, Account, Accounts, CacheLine, last_days
from gateway.ledger.observed import observed
from gateway.ledger.prices import engines_of, price_table
from gateway.settings import Settings, settings_from_environment
from gateway.telemetry.report import ReportError
from policies.ledger import usd
from policies.ledger.break_even import LIVES_S, told
from policies.ledger.levers import Lever, Observed
from policies.ledger.report import LayerLine, Totals

_METRICS_DEADLINE_S = 3.0
_UNKNOWN = "unknown"
_PERCENT = 100.0


class PriceUnknown(LaminaError):  # noqa: N818  (a state)
    """Nobody said what a model costs."""


@click.command()
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="Days up to today, UTC.")
@click.option("--by", type=click.Choice(DIMENSIONS), multiple=True, help="Tell sums apart; may be given again.")
@click.option("--tenant", metavar="NAME", help="Only this tenant.")
@click.option("--show", type=click.Choice(["sums", "caches", "levers"]), default="sums", help="What to look at.")
@json_option
def ledger(days: int, by: tuple[str, ...], tenant: str | None, show: str, as_json: bool) -> None:
    """Shows what answers cost and saved, by layer; what prompt caches did; or which lever pays."""
    settings = settings_from_environment()

    async def work(office: Office) -> Outcome:
        accounts = Accounts(LedgerRepository(office.database), price_table(settings), engines_of(settings))
        only = None
        if tenant is not None:
            only = frozenset({(await TenantRepository(office.database).find(tenant)).tenant_id})
        query = LedgerQuery(*last_days(office.now_s, days), by, only)
        if show == "caches":
            return _of_caches(await accounts.cache_use(query))
        if show == "levers":
            return _of_levers(await accounts.levers(query, _observed(settings)), query)
        return _of_sums(await accounts.account(query))

    print_outcome(administer(work, advice="`lamina tenants list` shows the tenants"), as_json=as_json)


@click.command(name="break-even")
@click.option("--model", required=True, metavar="NAME", help="As its provider calls it.")
@click.option("--tokens", type=click.IntRange(1), required=True, help="Of the prefix that is cached.")
@click.option("--questions", type=click.IntRange(0), default=0, help="That begin with it, an hour.")
@json_option
def pays(model: str, tokens: int, questions: int, as_json: bool) -> None:
    """Says when writing a prompt's beginning to a provider's cache pays."""
    row = price_table(settings_from_environment()).row(model)
    if row is None:
        raise PriceUnknown(f"no price of {model[:80]!r} is known; set ledger.prices")
    data = {"model": model, "source": row.source, "as_of": row.as_of}
    lives = {life: told(row.price(), tokens, questions, life_s) for life, life_s in LIVES_S.items()}
    shown = table("kept for", "written", "read", "not cached", "reads to pay", "most writes", "questions/h")
    for life, paid in lives.items():
        shown.add_row(
            life, *(f"$ {paid[name]}" for name in ("write_usd", "read_usd", "fresh_usd")), *_shown_break(paid)
        )
    lines: list[Any] = [shown, f"prices of {row.as_of or 'the settings'}, {row.source}"]
    if questions:
        lines += [_shown_hour(life, questions, paid["an_hour"]["at_random"]) for life, paid in lives.items()]
    print_outcome(Outcome({**data, "lives": lives}, Group(*lines)), as_json=as_json)


def _of_sums(account: Account) -> Outcome:
    layers = table("layer", "requests", "tokens", "mean ms", "cost", "saved")
    for line in account.layers:
        requests = "" if line.requests is None else str(line.requests)
        mean_ms = "" if line.mean_ms is None else f"{line.mean_ms:g}"
        computed = line.layer in ("fresh", "output")
        saved = "" if computed else _dollars(line.saved_usd)
        layers.add_row(line.layer, requests, str(line.tokens), mean_ms, _cost(line), saved)
    parts: list[Any] = [f"{account.first_day} to {account.last_day} (UTC)", _shown_totals(account.totals), layers]
    if account.groups:
        parts.append(_groups(account))
    if account.unpriced_models:
        names = ", ".join(shown_text(name) for name in account.unpriced_models[:10])
        parts.append(f"no price is known of: {names} (tokens count, money does not; set ledger.prices)")
    return Outcome(to_builtins(account), Group(*parts))


def _cost(line: LayerLine) -> str:
    """Nothing where it is told elsewhere."""
    return "" if line.cost_usd is None and line.layer.startswith("prefix_") else _dollars(line.cost_usd)


def _groups(account: Account) -> Table:
    names = list(account.groups[0].group)
    shown = table(*names, "requests", "errors", "prompt", "completion", "calls", "cost", "saved")
    for one in account.groups:
        found = one.totals
        counts = (found.requests, found.errors, found.prompt_tokens, found.completion_tokens, found.calls)
        money = _dollars(found.cost_usd), _dollars(found.saved_usd)
        shown.add_row(*(shown_text(one.group[name]) for name in names), *(str(count) for count in counts), *money)
    return shown


def _shown_totals(found: Totals) -> str:
    untold = f"; {found.untold} calls told no usage" if found.untold else ""
    return (
        f"{found.requests} requests ({found.errors} ended badly), {found.prompt_tokens} prompt and "
        f"{found.completion_tokens} completion tokens. {found.calls} calls to models cost "
        f"{_dollars(found.cost_usd)}; {_dollars(found.saved_usd)} saved at least{untold}."
    )


def _of_caches(lines: list[CacheLine]) -> Outcome:
    shown = table(
        "day", "provider", "model", "calls", "reads", "writes", "fresh", "hit rate", "writes of cached", "saved"
    )
    for line in lines:
        use = line.use
        counts = (use.calls, use.reads, use.writes, use.fresh)
        most = "" if line.most_write_share is None else f" (pays below {_share(line.most_write_share)})"
        share = _share(use.write_share) + (most if use.writes else "")
        names = (line.day, shown_text(line.provider), shown_text(line.model))
        shown.add_row(
            *names, *(str(count) for count in counts), _share(use.hit_rate), share, _dollars(use.saved_usd)
        )
    return Outcome({"caches": to_builtins(lines)}, shown)


def _of_levers(found: list[Lever], query: LedgerQuery) -> Outcome:
    shown = table("lever", "saved tokens", "saved", "may save more", "on what ground")
    for lever in found:
        more = _UNKNOWN
        if lever.more_pico is not None:
            more = f"{_dollars(usd(lever.more_pico.low))} to {_dollars(usd(lever.more_pico.high))}"
        elif lever.more_tokens is not None:
            more = f"{lever.more_tokens.low} to {lever.more_tokens.high} tokens"
        saved = None if lever.saved_pico is None else usd(lever.saved_pico)
        shown.add_row(lever.name, str(lever.saved_tokens), _dollars(saved), more, shown_text(lever.basis))
    days = {"first_day": query.first_day, "last_day": query.last_day}
    return Outcome({**days, "levers": [lever.as_json() for lever in found]}, shown)


def _observed(settings: Settings) -> dict[str, Observed]:
    """What a gateway that runs here counts in mode observe; nothing when none does."""
    try:
        url = f"{gateway_url(settings, None)}/metrics"
        with urllib.request.urlopen(url, timeout=_METRICS_DEADLINE_S) as reply:  # noqa: S310  (gateway_url checked it)
            return observed(reply.read().decode())
    except (OSError, urllib.error.URLError, ReportError, SettingsError, UnicodeDecodeError):
        return {}


def _shown_break(paid: dict[str, Any]) -> tuple[str, str, str]:
    reads, often = paid["reads_to_pay"], paid["questions_an_hour"]
    never = "never"
    least = never if often is None else f"{often:.2f}"
    return never if reads is None else str(reads), _share(paid["most_write_share"]), least


def _shown_hour(life: str, questions: int, hour: dict[str, Any]) -> str:
    less = "less" if hour["less"] >= 0 else "more"
    return (
        f"{questions} questions an hour, at random, kept for {life}: {_dollars(hour['with_usd'])} instead of "
        f"{_dollars(hour['without_usd'])}, {_share(abs(hour['less']))} {less}"
    )


def _dollars(amount: str | None) -> str:
    """Money to the cent, and small money to its first four figures."""
    if amount is None:
        return _UNKNOWN
    value = float(amount)
    return f"$ {value:.2f}" if abs(value) >= 1 or value == 0 else f"$ {value:.4g}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{_PERCENT * share:.1f} %"
