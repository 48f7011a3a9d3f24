"""A replay as one page that needs nothing else: no network, no script, light and dark."""

import math
from collections.abc import Sequence
from html import escape

from gateway.replay.charts import Axis, Point, RootAxis, Series, lines, scatter
from gateway.replay.report import Report
from gateway.replay.run import Replayed
from gateway.replay.tune import recommended
from policies.replay import LAYERS, Prices

_TONES = {"exact only": "exact", "plain threshold": "threshold", "semantic layer": "layer"}
_LEAST_WRONG_AXIS = 0.01
_MARGIN = 0.03
_HOUR_S, _MINUTE_S, _DAY_S = 3600.0, 60.0, 86400.0
_HOW_TO_READ = (
    "Up is more answers from the cache, left is fewer wrong ones; whiskers are 95 % intervals. Hits that the log "
    "cannot judge are in the height and not in the width."
)

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2024;--soft:#5c656d;--rule:#e2e5e8;
--exact:#59636b;--threshold:#b4520a;--layer:#1d5fd1;--good:#197a45;--bad:#b3261e;--band:#f5f6f8}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--ink:#e8eaec;--soft:#a0a8b0;--rule:#2e343a;
--exact:#b3bbc2;--threshold:#f0a35e;--layer:#82aeff;--good:#6fd39a;--bad:#ff8f86;--band:#1d2125}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:36px 0 8px}
p{margin:6px 0;max-width:75ch}.soft{color:var(--soft)}
.verdict{border-left:4px solid var(--soft);background:var(--band);padding:10px 14px;margin:18px 0}
.verdict.good{border-color:var(--good)}.verdict.bad{border-color:var(--bad)}
svg{width:100%;height:auto;display:block;max-width:860px}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg .title{font-size:13px;fill:var(--ink)}
svg .label{font-weight:600;paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
.legend{display:flex;flex-wrap:wrap;gap:4px 22px;margin:10px 0 2px;font-size:13px;color:var(--soft)}
.legend span::before{content:"";display:inline-block;width:11px;height:11px;border-radius:50%;margin-right:7px}
.legend .exact::before{background:var(--exact)}.legend .threshold::before{background:var(--threshold)}
.legend .layer::before{background:var(--layer)}
.grid{stroke:var(--rule)}.axis{stroke:var(--soft)}
.line{fill:none;stroke-width:2}.line.faint{stroke-width:1.4;stroke-opacity:.75}
.interval{stroke-width:1.5;stroke-opacity:.55}.dot{stroke:var(--paper);stroke-width:1.5}
.line.exact,.interval.exact{stroke:var(--exact)}.dot.exact,svg .label.exact{fill:var(--exact)}
.line.threshold,.interval.threshold{stroke:var(--threshold)}
.dot.threshold,svg .label.threshold{fill:var(--threshold)}
.line.layer,.interval.layer{stroke:var(--layer)}.dot.layer,svg .label.layer{fill:var(--layer)}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:6px 8px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left}
tr.chosen td{font-weight:600;background:var(--band)}
pre{background:var(--band);padding:12px 14px;overflow-x:auto}
"""


def page(report: Report) -> str:
    """The page."""
    title = f"Replay of {escape(report.log)}"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="soft">{escape(_about(report))}</p>',
        _verdict(report),
        "<h2>Hits against wrong answers</h2>",
        f'<p class="soft">{_HOW_TO_READ}</p>',
        _curve(report.results),
        "<h2>Hits over time</h2>",
        _course(report.results),
        "<h2>All policies</h2>",
        _table(report),
    ]
    if report.tuned is not None:
        parts += ["<h2>Recommended settings</h2>", f"<pre>{escape(recommended(report.tuned.rules))}</pre>"]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>\n{body}\n</main></body></html>\n"
    )


def percent(share: float) -> str:
    """A share for people: 12.3 %, 0.42 %."""
    digits = 1 if share >= 0.0995 or share == 0 else 2  # noqa: PLR2004  (three figures)
    return f"{100 * share:.{digits}f} %"


def _about(report: Report) -> str:
    lasted = duration(report.span_s)
    return (
        f"{report.requests:,} requests of {report.tenants} tenant{'s' * (report.tenants != 1)} over {lasted}; "
        f"{report.labelled:,} of them say which answer is right."
    )


def duration(seconds: float) -> str:
    """A time for people."""
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _verdict(report: Report) -> str:
    one = report.judged
    tally = one.tally
    share, interval = tally.wrong_of_all()
    text = (
        f"<b>{escape(one.name)}</b>: {percent(tally.hit_share)} of requests answered, {tally.wrong} wrong "
        f"({percent(share)} of all, 95 % interval {percent(interval.low)} to {percent(interval.high)})."
    )
    if report.max_wrong is None:
        return f'<div class="verdict">{text}</div>'
    kept = "stays under" if report.keeps else "exceeds"
    where = " on the lines that had no say" if report.tuned is not None else ""
    bound = f" The upper bound, {percent(tally.most_wrong())}, {kept} {percent(report.max_wrong)}{where}."
    return f'<div class="verdict {"good" if report.keeps else "bad"}">{text}{bound}</div>'


def _families(results: Sequence[Replayed]) -> dict[str, list[Replayed]]:
    found: dict[str, list[Replayed]] = {}
    for one in results:
        found.setdefault(one.family, []).append(one)
    return found


def _curve(results: Sequence[Replayed]) -> str:
    families = _families(results)
    highest = max(one.tally.wrong_of_all()[0] for one in results)
    shares = [one.tally.hit_share for one in results]
    least = math.floor(max(0.0, min(shares) - _MARGIN) * 10) / 10
    x = RootAxis("wrong answers in all requests", max(_LEAST_WRONG_AXIS, 1.15 * highest), _round_percent)
    y = Axis("hits in all requests", min(1.0, max(shares) + _MARGIN), _round_percent, least)
    series = [Series(family, _TONES[family], [_point(one) for one in ones]) for family, ones in families.items()]
    legend = "".join(f'<span class="{_TONES[family]}">{family}</span>' for family in families)
    return f'<div class="legend">{legend}</div>{scatter("Hits against wrong answers", x, y, series)}'


def _point(one: Replayed) -> Point:
    share, interval = one.tally.wrong_of_all()
    return Point(share, one.tally.hit_share, _short(one), interval.low, interval.high)


def _short(one: Replayed) -> str:
    """The name without the family's, which the legend tells."""
    return one.name.removeprefix("threshold ").removeprefix("layer ")


def _round_percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _course(results: Sequence[Replayed]) -> str:
    courses = [(one, one.tally.course()) for one in results]
    begin = min(course[0][0] for _, course in courses)
    span = max(course[-1][0] for _, course in courses) - begin
    most = max(course[-1][1] for _, course in courses)
    size, unit = next(
        (
            (size, unit)
            for size, unit in ((_DAY_S, "days"), (_HOUR_S, "hours"), (_MINUTE_S, "minutes"))
            if span >= 2 * size
        ),
        (1.0, "seconds"),
    )
    of_family = {family: len(ones) for family, ones in _families(results).items()}
    series = [
        Series(
            one.name,
            _TONES[one.family],
            [Point((at - begin) / size, hits, one.name) for at, hits in course],
            faint=of_family[one.family] > 1,
        )
        for one, course in courses
    ]
    x = Axis(f"{unit} since the first request", span / size, lambda value: f"{value:g}")
    return lines("Hits over time", x, Axis("hits so far", float(most), lambda value: f"{value:,.0f}"), series)


def _table(report: Report) -> str:
    priced = report.prices != Prices()
    head = [
        "policy",
        "hits",
        *LAYERS,
        "wrong",
        "of all (95 %)",
        "of hits (95 %)",
        "unknown",
        "tokens saved",
        "latency saved",
    ]
    rows = [head + ["cost saved"] * priced]
    rows += [_cells(one, report.prices, priced=priced) for one in report.results]
    chosen = [False, *(one.name == report.chosen for one in report.results)]
    if report.tuned is not None:
        checked = _cells(report.tuned.checked, report.prices, priced=priced)
        rows.append([f"tuned, checked on {report.tuned.checked.tally.requests:,} later lines", *checked[1:]])
        chosen.append(True)
    lines_of = [
        f"<tr{' class=chosen' * mark}>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"
        for number, (row, mark) in enumerate(zip(rows, chosen, strict=True))
        for tag in ["th" if number == 0 else "td"]
    ]
    return f'<div class="table"><table>{"".join(lines_of)}</table></div>'


def _cells(one: Replayed, prices: Prices, *, priced: bool) -> list[str]:
    tally = one.tally
    layers = [tally.layers[name] for name in LAYERS]
    tokens = sum(layer.prompt_tokens + layer.completion_tokens for layer in layers)
    cost = sum(prices.cost(layer.prompt_tokens, layer.completion_tokens) for layer in layers)
    cells = [
        one.name,
        f"{tally.hits:,} ({percent(tally.hit_share)})",
        *(f"{layer.hits:,}" for layer in layers),
        f"{tally.wrong:,}",
        _interval(*tally.wrong_of_all()),
        _interval(*tally.wrong_of_hits()),
        f"{tally.unknown:,}",
        f"{tokens:,}",
        duration(sum(layer.latency_ms for layer in layers) / 1000),
    ]
    return cells + [f"{cost:,.2f}"] * priced


def _interval(share: float, interval: tuple[float, float]) -> str:
    return f"{percent(share)} ({percent(interval[0])} to {percent(interval[1])})"
