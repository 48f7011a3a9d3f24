"""Charts as inline SVG: no library, no script, colours from the page's variables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 130, 26, 52
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_TICKS = 5
_LABEL_GAP = 15.0
_CHARACTER = 6.6
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_ROOT_TICKS = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
_TICK_GAP = 40.0


@dataclass(frozen=True, slots=True)
class Point:
    """One mark; `low` and `high` bound its x where it has an interval."""

    x: float
    y: float
    label: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour, joined in order.

    Attributes:
        tone: name of a CSS class that gives the colour.
        faint: drawn thinner, as one of several of its kind.
    """

    name: str
    tone: str
    points: Sequence[Point]
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis with round ticks.

    Attributes:
        most: largest value to show.
        shown: writes a value.
        least: where it begins; a multiple of the step is best.
    """

    title: str
    most: float
    shown: Callable[[float], str]
    least: float = 0.0

    @property
    def step(self) -> float:
        """Between ticks: a round number."""
        raw = max(self.most - self.least, 1e-9) / _TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        return next(step * power for step in _STEPS if step * power >= raw * 0.999)

    @property
    def end(self) -> float:
        """The last tick."""
        return self.least + self.step * math.ceil(max(self.most - self.least, 1e-9) / self.step - 1e-9)

    def ticks(self) -> list[float]:
        """Every tick, the lowest first."""
        return [
            self.least + self.step * number for number in range(round((self.end - self.least) / self.step) + 1)
        ]

    def part(self, value: float) -> float:
        """Where a value lies, 0 to 1."""
        return max(0.0, min(1.0, (value - self.least) / (self.end - self.least)))


@dataclass(frozen=True, slots=True)
class RootAxis(Axis):
    """An axis of shares from 0 whose small values have more room: places go with the square root."""

    @property
    def end(self) -> float:
        """The largest value."""
        return min(1.0, self.most)

    def ticks(self) -> list[float]:
        """Those that keep a distance."""
        kept = [0.0]
        for value in _ROOT_TICKS:
            if value <= self.end and (self.part(value) - self.part(kept[-1])) * _PLOT_WIDTH >= _TICK_GAP:
                kept.append(value)
        return kept

    def part(self, value: float) -> float:
        """Where a value lies, 0 to 1."""
        return math.sqrt(max(0.0, min(1.0, value / self.end)))


def scatter(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Marks with their intervals, those of a series joined by a line, each with its label."""
    body = [_frame(x, y)]
    for one in series:
        body.append(_joined(one, x, y))
        body += [_mark(one, point, x, y) for point in one.points]
    body.append(_labels([(one, point) for one in series for point in one.points], x, y, beside=7.0, above=11.0))
    return _svg(title, body)


def lines(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """A line per series, labelled at its end."""
    body = [_frame(x, y), *(_joined(one, x, y) for one in series)]
    body.append(_labels([(one, one.points[-1]) for one in series if one.points], x, y, beside=6.0, above=0.0))
    return _svg(title, body)


def _svg(title: str, body: Sequence[str]) -> str:
    named = escape(title, quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{named}">'
        f"<title>{named}</title>{''.join(body)}</svg>"
    )


def _at_x(value: float, axis: Axis) -> float:
    return _LEFT + _PLOT_WIDTH * axis.part(value)


def _at_y(value: float, axis: Axis) -> float:
    return HEIGHT - _BOTTOM - _PLOT_HEIGHT * axis.part(value)


def _frame(x: Axis, y: Axis) -> str:
    parts: list[str] = []
    for value in y.ticks():
        at = _at_y(value, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{y.shown(value)}</text>'
        )
    for value in x.ticks():
        at, under = _at_x(value, x), HEIGHT - _BOTTOM
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{under}" y2="{under + 5}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{under + 19}" text-anchor="middle">{x.shown(value)}</text>'
        )
    base = HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="title" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.title)}</text>'
    )
    turned = (_TOP + base) / 2
    parts.append(
        f'<text class="title" transform="rotate(-90 16 {turned})" x="16" y="{turned}" '
        f'text-anchor="middle">{escape(y.title)}</text>'
    )
    return "".join(parts)


def _joined(one: Series, x: Axis, y: Axis) -> str:
    if len(one.points) < 2:  # noqa: PLR2004  (a line has two ends)
        return ""
    path = " ".join(f"{_at_x(point.x, x):.1f},{_at_y(point.y, y):.1f}" for point in one.points)
    faint = " faint" if one.faint else ""
    return f'<polyline class="line {one.tone}{faint}" points="{path}"/>'


def _mark(one: Series, point: Point, x: Axis, y: Axis) -> str:
    at_x, at_y = _at_x(point.x, x), _at_y(point.y, y)
    told = f"{one.name}, {point.label}: {x.title} {x.shown(point.x)}, {y.title} {y.shown(point.y)}"
    interval = ""
    if point.low is not None and point.high is not None:
        low, high = _at_x(point.low, x), _at_x(min(point.high, x.end), x)
        interval = (
            f'<line class="interval {one.tone}" x1="{low:.1f}" x2="{high:.1f}" y1="{at_y:.1f}" y2="{at_y:.1f}"/>'
        )
        told += f" (95 %: {x.shown(point.low)} to {x.shown(point.high)})"
    dot = f'<circle class="dot {one.tone}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="5">'
    return f"{interval}{dot}<title>{escape(told)}</title></circle>"


def _labels(ends: Sequence[tuple[Series, Point]], x: Axis, y: Axis, *, beside: float, above: float) -> str:
    """Labels right of their points, moved apart where they would lie on each other."""
    placed: list[tuple[float, float, str]] = []
    parts: list[str] = []
    for one, point in sorted(ends, key=lambda end: -end[1].y):
        left = _at_x(point.x, x) + beside
        top = _free(_at_y(point.y, y) - above, left, point.label, placed)
        placed.append((top, left, point.label))
        parts.append(
            f'<text class="label {one.tone}" x="{left:.1f}" y="{top + 4:.1f}">{escape(point.label)}</text>'
        )
    return "".join(parts)


def _free(top: float, left: float, label: str, placed: Sequence[tuple[float, float, str]]) -> float:
    """The first height from `top` down where the label lies on no other."""
    while any(
        abs(top - there) < _LABEL_GAP and _overlap(left, label, other, text) for there, other, text in placed
    ):
        top += 1.0
    return top


def _overlap(left: float, label: str, other: float, text: str) -> bool:
    return left < other + _CHARACTER * len(text) and other < left + _CHARACTER * len(label)
