"""`lamina replay`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from gateway.cli.administration import Outcome, show, table
from gateway.replay.compare import KINDS, Comparison, Log, Wish
from gateway.replay.errors import ReplayError
from gateway.replay.models import models_of
from gateway.replay.page import duration, page, percent
from gateway.replay.prepare import Preparer, read_log
from gateway.replay.report import Report
from gateway.replay.run import Replayed
from gateway.replay.tune import recommended
from gateway.settings import settings_from_environment
from policies.replay import Prices, enough_for

_STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Papers:
    """Where the findings go besides the terminal."""

    as_json: str | None
    as_html: Path | None


@click.command()
@click.argument("log", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="What to replay, repeatable; all when absent.",
)
@click.option("--choose", metavar="NAME", help="The policy that --max-wrong judges: exact, layer or a threshold.")
@click.option("--max-wrong", type=click.FloatRange(0, 1, min_open=True), help="Exit 1 when more may be wrong.")
@click.option(
    "--tune", "tuned", is_flag=True, help="Search settings on the earlier half, check them on the later."
)
@click.option("--ttl", type=click.IntRange(1), help="Life of an answer in seconds; cache.ttl_s when absent.")
@click.option("--seed", default=0, show_default=True, help="Of the draws that choose what is explored.")
@click.option("--prompt-price", type=click.FloatRange(0), default=0.0, help="Of a million prompt tokens.")
@click.option("--completion-price", type=click.FloatRange(0), default=0.0, help="Of a million completion tokens.")
@click.option("--json", "as_json", metavar="FILE", help="Write everything as JSON; - for standard output.")
@click.option(
    "--html", "as_html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts."
)
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    log: Path,
    kinds: tuple[str, ...],
    choose: str | None,
    max_wrong: float | None,
    tuned: bool,
    ttl: int | None,
    seed: int,
    prompt_price: float,
    completion_price: float,
    as_json: str | None,
    as_html: Path | None,
) -> None:
    """Replays the request log LOG against cache policies and compares hits, wrong hits and what is saved.

    LOG is JSONL, ordered by time, one request per line; no model is called and nothing is stored. Exit status: 0
    when the bound holds or none is asked for, 1 when it does not.
    """
    settings = settings_from_environment()
    wish = Wish(
        kinds=kinds or KINDS,
        choose=choose,
        max_wrong=max_wrong,
        tuned=tuned,
        seed=seed,
        ttl_s=float(ttl or settings.cache.ttl_s),
        prices=Prices(prompt_price, completion_price),
    ).checked()
    lines = read_log(log)
    with _progress() as bars:
        ready = Preparer(settings, wish.ttl_s).prepare(lines, bars.begin("reading", len(lines)))
        with models_of(settings.semantic) if wish.needs_models else nullcontext() as rehearsal:
            report = Comparison(Log(log.name, lines, ready), settings, wish, rehearsal).run(bars.begin)
    _tell(report, Papers(as_json, as_html))
    ctx.exit(0 if report.keeps else 1)


class _Bars:
    """Progress on standard error; nothing at all where that is no terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        """A new bar; call the result with how much more is done."""
        task = self._progress.add_task(what, total=total)

        def more(count: int) -> None:
            self._progress.advance(task, count)

        return more


@contextmanager
def _progress() -> Iterator[_Bars]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Bars(progress)


def _tell(report: Report, papers: Papers) -> None:
    found = json.dumps(report.as_json(), indent=2) + "\n"
    if papers.as_html is not None:
        _write(papers.as_html, page(report))
    if papers.as_json == _STANDARD_OUTPUT:
        click.echo(found, nl=False)
        return
    if papers.as_json is not None:
        _write(Path(papers.as_json), found)
    show(Outcome({}, _shown(report)), as_json=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ReplayError(f"cannot write {path}: {error.strerror}") from None


def _shown(report: Report) -> Group:
    rows = table("policy", "hits", "exact", "semantic", "wrong", "of all (95 %)", "of hits", "unknown", "saved")
    for one in report.results:
        rows.add_row(*_row(one, report.prices), style="bold" if one.name == report.chosen else None)
    parts: list[RenderableType] = [rows, Text(f"\n{_about(report)}")]
    if report.verifies is False:
        parts.append(Text("There is no verifier here, so the layer serves only the same question."))
    if report.tuned is not None:
        checked = report.tuned.checked
        parts.append(Text(f"\nRecommended, found on the first {report.tuned.tuning.tally.requests:,} lines:\n"))
        parts.append(Text(recommended(report.tuned.rules)))
        parts.append(Text(f"On the other {checked.tally.requests:,} lines: {_sentence(checked)}"))
    if report.max_wrong is not None:
        parts.append(Text(_verdict(report)))
    return Group(*parts)


def _row(one: Replayed, prices: Prices) -> list[str]:
    tally = one.tally
    share, interval = tally.wrong_of_all()
    layers = tally.layers.values()
    tokens = sum(layer.prompt_tokens + layer.completion_tokens for layer in layers)
    cost = sum(prices.cost(layer.prompt_tokens, layer.completion_tokens) for layer in layers)
    spared = duration(sum(layer.latency_ms for layer in layers) / 1000)
    return [
        one.name,
        f"{tally.hits:,} ({percent(tally.hit_share)})",
        *(f"{layer.hits:,}" for layer in layers),
        f"{tally.wrong:,}",
        f"{percent(share)} ({percent(interval.low)} to {percent(interval.high)})",
        percent(tally.wrong_of_hits()[0]),
        f"{tally.unknown:,}",
        f"{tokens:,} tokens, {spared}" + (f", {cost:,.2f}" if prices != Prices() else ""),
    ]


def _about(report: Report) -> str:
    return (
        f"{report.requests:,} requests of {report.tenants} tenants over {duration(report.span_s)}; "
        f"{report.labelled:,} say which answer is right."
    )


def _sentence(one: Replayed) -> str:
    tally = one.tally
    return (
        f"{percent(tally.hit_share)} hits, {tally.wrong} wrong; by the 95 % bound at most "
        f"{percent(tally.most_wrong())} of all."
    )


def _verdict(report: Report) -> str:
    tally, bound = report.judged.tally, report.max_wrong or 0.0
    most = tally.most_wrong()
    if report.keeps:
        return f"{report.judged.name} keeps the bound: {percent(most)} is at most {percent(bound)}."
    why = ""
    if tally.unknown:
        why = f" {tally.unknown} hits have neither ids nor equal answers and count as wrong."
    elif tally.wrong == 0:
        why = f" None was wrong, but it takes {enough_for(bound):,} requests to show that."
    return f"{report.judged.name} does not keep the bound: {percent(most)} is above {percent(bound)}.{why}"
