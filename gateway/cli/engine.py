"""`lamina engine`."""

from typing import Any

import click
from rich.console import Group

from gateway.cli.administration import Outcome, json_option, show, shown_text, table
from gateway.cli.gateway_client import Answer, GatewayClient, administrators_key, gateway_url
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment
from gateway.telemetry.prefix_runs import in_order

_OK = 200
_SPANS = ("queue_time", "time_to_first_token", "time_per_output_token", "prefill_time", "decode_time")


class EngineCommandError(LaminaError):
    """The gateway did not tell."""


@click.command()
@click.option("--prefixes", is_flag=True, help="The tree of cached prefixes too, by tenant; no word of a prompt.")
@click.option("--url", metavar="URL", help="The gateway; else the set in LAMINA_HOME.")
@json_option
def engine(url: str | None, *, prefixes: bool, as_json: bool) -> None:
    """Shows the engine's KV cache, what prefixes it found again, and its times since it started."""
    settings = settings_from_environment()
    client = GatewayClient(gateway_url(settings, url), administrators_key(settings))
    told = _good(client.get("/admin/v1/engine"))
    if not told["used"]:
        show(Outcome(told, "this set has no engine; models are asked at providers"), as_json=as_json)
        return
    parts = [_figures(told), "", _times(told)]
    if prefixes:
        told["prefixes"] = _good(client.get("/admin/v1/engine/prefixes"))
        parts += ["", *_tree(told["prefixes"])]
    show(Outcome(told, Group(*parts)), as_json=as_json)


def _figures(told: dict[str, Any]) -> Any:
    blocks, found = told["blocks"], sum(told["hit_tokens"].values())
    shown = table("engine", "")
    shown.add_row(
        "KV blocks", f"{blocks['used']:,} of {blocks['total']:,} in use, {blocks['cached']:,} hold a prefix"
    )
    shown.add_row(
        "prefix hits", f"{found:,} of {told['query_tokens']:,} prompt tokens, {_share(told['hit_rate'])}"
    )
    shown.add_row("running", f"{told['running']:,}, {told['waiting']:,} waiting")
    shown.add_row("evictions", _counts(told["evictions"]))
    shown.add_row("prefixes ended", _counts(told["misses"]))
    shown.add_row("finished", _counts(told["finished"]))
    return shown


def _times(told: dict[str, Any]) -> Any:
    shown = table("time in ms", "median", "95 %", "99 %")
    for name in _SPANS:
        span = told["spans"][name]
        shown.add_row(name.replace("_", " "), *(_ms(span[f"p{which}_ms"]) for which in (50, 95, 99)))
    return shown


def _tree(told: dict[str, Any]) -> list[Any]:
    if not told["used"]:
        return ["this engine does not tell its prefixes"]
    if not told["items"]:
        return ["no prefix is cached"]
    shown = table("cached prefix", "tokens", "found", "tokens saved", "continued by", "protected")
    for item in told["items"]:
        shown.add_row(shown_text(item["name"] or "no present tenant"), f"{item['cached_tokens']:,}")
        for run in in_order(item["runs"]):
            place = f"{'  ' * (run['depth'] + 1)}{run['start']:,} to {run['start'] + run['tokens']:,}"
            figures = ("tokens", "hits", "saved_tokens", "continuations", "pinned_tokens")
            shown.add_row(place, *(f"{run[figure]:,}" for figure in figures))
    shortened = f"what was found most often, of {len(told['items']):,} of {told['trees']:,} trees"
    return [shown] if told["complete"] else [shown, shortened]


def _share(share: float | None) -> str:
    return "none looked up" if share is None else f"{share:.1%}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _ms(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:.3g}"


def _good(answer: Answer) -> dict[str, Any]:
    if answer.status != _OK:
        raise EngineCommandError(answer.problem)
    body: dict[str, Any] = answer.body
    return body
