"""`lamina explain`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from gateway.cli.administration import Outcome, json_option, show, shown_text, table
from gateway.cli.gateway_client import GatewayClient, administrators_key, gateway_url
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment

_STYLES = {"hit": "bold green", "stale": "bold green", "would_hit": "bold yellow", "miss": "bold red"}
_OK = 200
_SHOWN_CHARS = 70
_KEY_CHARS = 12


class ExplainError(LaminaError):
    """The request cannot be explained."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--tenant", default="default", show_default=True, metavar="NAME", help="Whose request it is.")
@click.option("--header", "headers", metavar="NAME:VALUE", multiple=True, help="A cache control, repeatable.")
@click.option(
    "--url", metavar="URL", help="The gateway; else the set in LAMINA_HOME, else LAMINA_HOST:LAMINA_PORT."
)
@json_option
def explain(file: Path, tenant: str, headers: tuple[str, ...], *, url: str | None, as_json: bool) -> None:
    """Says why the request in FILE (- for standard input) would, or would not, be answered from the cache.

    FILE holds an OpenAI chat body. No model is called, and nothing is changed.
    """
    settings = settings_from_environment()
    client = GatewayClient(gateway_url(settings, url), administrators_key(settings))
    body = {"tenant": tenant, "request": _request(file), "headers": dict(map(_pair, headers))}
    answer = client.post("/admin/v1/explain", body)
    if answer.status != _OK:
        raise ExplainError(answer.problem)
    show(Outcome(answer.body, _shown(answer.body)), as_json=as_json)


def _request(file: Path) -> Any:
    try:
        return json.loads(sys.stdin.read() if str(file) == "-" else file.read_text("utf-8"))
    except OSError as error:
        raise ExplainError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ExplainError(f"{file} is no JSON: {error}") from None


def _pair(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(f"{header!r} is not NAME:VALUE", param_hint="--header")
    return name.strip(), value.strip()


def _shown(told: Mapping[str, Any]) -> Group:
    verdict, layer, route = told["verdict"], told["layer"], told["route"]
    head = Text(verdict.replace("_", " ").upper(), style=_STYLES.get(verdict, "bold"))
    head.append(f" ({layer} layer)" if layer else "", style="default")
    facts = table("", "")
    facts.show_header = False
    facts.add_row("rule", shown_text(told["rule"]))
    facts.add_row("tenant", f"{shown_text(told['tenant']['name'])} ({told['tenant']['id']})")
    facts.add_row(
        "route", f"{shown_text(route['name'])}, mode {route['mode']}, model {shown_text(route['model'])}"
    )
    if told["controls"]:
        facts.add_row("controls", shown_text(json.dumps(told["controls"])))
    facts.add_row("key", told["key"] or "none")
    facts.add_row("exact", _entry(told["exact"]))
    facts.add_row("meaning", _meaning(told["meaning"]))
    parts: list[RenderableType] = [head, Text(told["because"]), "", facts]
    parts += _guards(told["guards"])
    parts += _candidates(told["meaning"])
    parts += _nearest(told["nearest"])
    return Group(*parts)


def _entry(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "not looked up"
    if not entry["request_id"]:
        return f"{entry['decision']}: {entry['reason']}"
    guards = f", guards say {', '.join(entry['guards'])}" if entry["guards"] else ""
    purged = f", purged ({entry['purged']})" if entry["purged"] else ""
    age = f"{entry['age_s']:.0f} s old, {entry['ttl_s']:.0f} s left"
    return f"{entry['decision']}: {entry['reason']} ({age}{purged}{guards}; made by {entry['request_id']})"


def _meaning(meaning: Mapping[str, Any] | None) -> str:
    if meaning is None:
        return "not asked: an earlier step decided"
    if not meaning["asked"]:
        return f"not asked: {shown_text(meaning['reason'])}"
    spent = sum(meaning["spent_ms"])
    return f"{meaning['decision']}: {shown_text(meaning['reason'])}" + (f" ({spent:.1f} ms)" if spent else "")


def _guards(guards: list[Mapping[str, Any]]) -> list[RenderableType]:
    if not guards:
        return []
    rows = table("guard", "reason", "action")
    for verdict in guards:
        rows.add_row(verdict["guard"], verdict["reason"], verdict["action"])
    return ["", Text("Guards on the question", style="bold"), rows]


def _candidates(meaning: Mapping[str, Any] | None) -> list[RenderableType]:
    if not meaning or not meaning["candidates"]:
        return []
    rows = table("row", "question", "similarity", "probability", "budget", "refused by")
    for one in meaning["candidates"]:
        rows.add_row(
            str(one["row"]),
            _cut(one["question"] or "gone"),
            f"{one['similarity']:.3f}",
            "" if one["probability"] is None else f"{one['probability']:.4f}",
            _budget(one["budget"]),
            _refusal(one),
        )
    return ["", Text("Stored questions that may have the same answer", style="bold"), rows]


def _budget(budget: Mapping[str, Any] | None) -> str:
    if budget is None:
        return "not asked"
    figures = {name: value for name, value in budget.items() if name not in ("decision", "reason")}
    told = ", ".join(f"{name} {value}" for name, value in figures.items())
    return shown_text(f"{budget['decision']} ({budget['reason']}){': ' if told else ''}{told}")


def _refusal(one: Mapping[str, Any]) -> str:
    seen = "; ".join(f"{name}: {detail}" for name, detail in one["vetoes"])
    return shown_text((one["refused"] or "nobody") + (f" ({seen})" if seen else ""))


def _nearest(nearest: list[Mapping[str, Any]]) -> list[RenderableType]:
    if not nearest:
        return []
    rows = table("key", "question", "similarity", "state", "differs in")
    for one in nearest:
        differs = one["differs"]
        rows.add_row(
            one["key"][:_KEY_CHARS],
            _cut(one["question"]),
            "same" if one["similarity"] is None else f"{one['similarity']:.3f}",
            one["state"],
            "not recorded" if differs is None else shown_text(", ".join(differs)) or "nothing",
        )
    return ["", Text("Nearest stored requests of this tenant", style="bold"), rows]


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return shown_text(plain if len(plain) <= _SHOWN_CHARS else plain[: _SHOWN_CHARS - 1] + "…")
