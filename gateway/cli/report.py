"""`lamina report`."""

import urllib.error
import urllib.request

import click
from rich.console import Group
from rich.table import Table

from gateway.cli.administration import Outcome, json_option, show
from gateway.settings import settings_from_environment
from gateway.telemetry.report import LayerReport, Report, ReportError, read_report

_DEADLINE_S = 10.0
_SHOWN_REASONS = 6


@click.command()
@click.option("--url", metavar="URL", help="The gateway; else http://LAMINA_HOST:LAMINA_PORT.")
@json_option
def report(url: str | None, as_json: bool) -> None:
    """Shows what each layer saved since the gateway started, or would have saved where it only observes."""
    settings = settings_from_environment()
    base = url or f"http://{settings.host}:{settings.port}"
    found = read_report(_fetch(base.rstrip("/") + "/metrics"))
    show(Outcome(found.as_json(), _shown(found)), as_json=as_json)


def _fetch(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ReportError("--url takes http://HOST:PORT")
    try:
        with urllib.request.urlopen(url, timeout=_DEADLINE_S) as reply:  # noqa: S310  (the scheme was checked)
            text: str = reply.read().decode()
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise ReportError(f"no gateway answers at {url}: {reason}; start one with `lamina serve`") from None
    return text


def _shown(found: Report) -> Group:
    layers = Table(title=f"{found.requests} requests since the gateway started", title_justify="left")
    for name in ("layer", "look-ups", "hits", "would hit", "share", "tokens saved", "would save", "misses"):
        layers.add_column(name, justify="left" if name in ("layer", "misses") else "right")
    for layer in found.layers:
        layers.add_row(*_row(layer))
    model = (
        f"The model processed {found.model_prompt_tokens} prompt tokens, {found.prompt_cached_tokens} of them "
        f"from a prompt cache, and {found.model_completion_tokens} completion tokens. {found.stored} answers were "
        "stored."
    )
    rest = [
        model,
        _sentence("Not stored", found.refused_writes),
        _sentence("Answers compared for the error budget", found.compared),
        _sentence("Faults", found.faults),
    ]
    return Group(layers, *[line for line in rest if line])


def _row(layer: LayerReport) -> tuple[str, ...]:
    return (
        layer.layer,
        str(layer.lookups),
        str(layer.hits),
        str(layer.would_hits),
        f"{layer.hit_share} %",
        f"{layer.saved_prompt_tokens} + {layer.saved_completion_tokens}",
        f"{layer.would_save_prompt_tokens} + {layer.would_save_completion_tokens}",
        _reasons(layer.misses),
    )


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in list(counts.items())[:_SHOWN_REASONS])


def _sentence(title: str, counts: dict[str, int]) -> str:
    return f"{title}: {_reasons(counts)}." if counts else ""
