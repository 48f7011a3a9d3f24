"""`lamina doctor`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.progress import track
from rich.text import Text

from gateway.cli.administration import Outcome, json_option, plain, show, shown_text, table
from gateway.ledger.prices import price_table
from gateway.replay.prepare import read_log
from gateway.settings import settings_from_environment
from policies.doctor import Ailment, Diagnosis, Doctor, Seen, parts_of, summed_up
from policies.ledger import PriceTable, usd

_SHOWN = 10


@click.command()
@click.argument("log", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--top", type=click.IntRange(1), default=_SHOWN, show_default=True, help="Findings to show.")
@click.option("--no-text", is_flag=True, help="Leave out the examples, which quote prompts.")
@click.option(
    "--max-lost", type=click.FloatRange(0, 1), help="Exit 1 when a larger share of prompt tokens is lost."
)
@json_option
@click.pass_context
def doctor(
    ctx: click.Context, *, log: Path, top: int, no_text: bool, max_lost: float | None, as_json: bool
) -> None:
    """Says why prompts of LOG cannot be read from a prefix cache, what that costs, and how to mend it.

    LOG is JSONL as for `lamina replay`, in the order of time. Each prompt is compared with the recent one of its
    tenant and model that it was built like. Nothing is sent anywhere.
    """
    lines = read_log(log)
    bar = Console(stderr=True)
    physician = Doctor()
    found = summed_up(
        physician.see(Seen((line.tenant, line.model), parts_of(line.body), line.prompt_tokens, line.t_s))
        for line in track(lines, "comparing", console=bar, disable=not bar.is_terminal, transient=True)
    )
    money = _pricer(price_table(settings_from_environment()))
    outcome = Outcome(_told(found, money, quoted=not no_text), _shown(found, money, top, quoted=not no_text))
    show(outcome, as_json=as_json)
    if max_lost is not None and _share(found.lost_tokens, found.tokens) > max_lost:
        click.echo(f"error: more than {max_lost:.1%} of prompt tokens are lost", err=True)
        ctx.exit(1)


def _pricer(prices: PriceTable) -> Callable[[Ailment], str | None]:
    """What an ailment costs in dollars: tokens that are paid in full and could be read; None without a price."""

    def priced(ailment: Ailment) -> str | None:
        price = prices.of(ailment.model)
        return None if price is None else usd(int(ailment.lost_tokens) * (price.input - price.read))

    return priced


def _told(found: Diagnosis, money: Callable[[Ailment], str | None], *, quoted: bool) -> dict[str, Any]:
    return {
        "requests": found.requests,
        "compared": found.compared,
        "prompt_tokens": round(found.tokens),
        "kept_tokens": round(found.kept_tokens),
        "lost_tokens": round(found.lost_tokens),
        "findings": [
            {
                "tenant": one.tenant,
                "model": one.model,
                "kind": one.kind,
                "place": one.place,
                "requests": one.requests,
                "lost_tokens": round(one.lost_tokens),
                "lost_usd": money(one),
                "remedy": one.remedy,
                **({"before": one.before, "now": one.now} if quoted else {}),
            }
            for one in found.ailments
        ],
    }


def _shown(found: Diagnosis, money: Callable[[Ailment], str | None], top: int, *, quoted: bool) -> RenderableType:
    kept, lost = _share(found.kept_tokens, found.tokens), _share(found.lost_tokens, found.tokens)
    head = (
        f"{found.requests:,} prompts, {found.tokens:,.0f} prompt tokens. A prefix cache can reuse {kept:.1%} of "
        f"them as they are; {lost:.1%} more are lost to what is listed here."
    )
    if not found.ailments:
        return Text(f"{head}\nNothing breaks a prefix that could be kept.")
    rows = table("what", "where", "model", "prompts", "tokens lost", "$ lost")
    parts: list[RenderableType] = [Text(head), Text(""), rows, Text("")]
    for number, one in enumerate(found.ailments[:top], 1):
        rows.add_row(
            f"{number} {one.kind}",
            shown_text(one.place),
            shown_text(one.model),
            f"{one.requests:,}",
            f"{one.lost_tokens:,.0f}",
            money(one) or "unknown",
        )
        parts.append(Text(f"{number}  {plain(one.remedy)}"))
        if quoted and one.before != one.now:
            parts.append(Text(f"   before …{plain(one.before)}…\n   now    …{plain(one.now)}…", style="dim"))
    return Group(*parts)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
