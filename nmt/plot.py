"""Line diagrams as self-contained SVG pictures, and the frame, text and colours of all pictures.

All panels share the horizontal axis. SVG needs no plotting library, and browsers, editors and
READMEs show it. The background is drawn, so that pictures are readable on light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

INK, FAINT, GRID = "#1f2328", "#59636e", "#e4e7eb"
# Okabe and Ito's colours without yellow: readers with any colour vision can tell them apart.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return the document of a picture, in pixels, with its title in the top left corner."""
    size = f'width="{width:g}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {size} '
            f'font-family="{_FONT}" font-size="12" role="img">',
            f"<title>{escape(legible(title))}</title>",
            f'<rect {size} rx="6" fill="#ffffff"/>',
            text(24, 34, title, size=19, bold=True),
            *parts,
            "</svg>\n",
        ]
    )


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: int = 12,
    bold: bool = False,
    anchor: str = "start",
    colour: str = INK,
    more: str = "",
) -> str:
    """Return a line of text at (x, y).

    anchor: which of its points is there: start, middle or end.
    more: elements after the content.
    """
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:.1f}" font-size="{size}"{weight} text-anchor="{anchor}" '
        f'fill="{colour}">{escape(legible(content))}{more}</text>'
    )


def legible(content: str) -> str:
    """Replace characters that are invisible, or not allowed in XML, by codes such as `<U+000A>`."""
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in content)


Point = tuple[float, float]

PLOT_WIDTH = 400
PLOT_HEIGHT = 200
MAX_POINTS = 1000
"""The most points drawn of a series: the picture has no more pixels to show."""

_COLUMNS = 2
_HEADER = 52
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 54, 50
_PANEL_WIDTH = _LEFT + PLOT_WIDTH + _RIGHT
_FEW_POINTS = 40
_LEGEND_LINE = 18
_CHARACTER = 6.8  # wide: average width of a legend's characters
_ENTRY = 30  # width of a legend's entry besides its characters
_INTERVALS = 5
_TICK_DIGITS = 6
_HUGE = 1e300  # beyond it the arithmetic of an axis may overflow


@dataclass(frozen=True)
class Series:
    """One line of a panel."""

    label: str
    points: Sequence[Point]
    """(x, value) by ascending x, from 0; NaN and infinities are left out."""


@dataclass(frozen=True)
class Panel:
    """One diagram: series that share a vertical axis."""

    title: str
    series: Sequence[Series]
    unit: str
    log_scale: bool = False
    """Whether the vertical axis is logarithmic; values of 0 or less are then left out."""
    legend_values: bool = True
    """Whether the legend gives the last value of each series."""


@dataclass(frozen=True)
class _Axis:
    """Maps values from `low` to `high` to 0 to `length` pixels."""

    low: float
    high: float
    length: int
    ticks: Sequence[float]
    log_scale: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log_scale:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.length * (value - low) / (high - low)


def draw_curves(
    panels: Sequence[Panel],
    title: str,
    *,
    x_label: str = "update",
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Return an SVG document with the panels in two columns; x begins at 0.

    marks: places on the x axis with a name, such as where a stage of training begins.
    """
    drawable = [
        [line for line in (_drawable(s, panel.log_scale) for s in panel.series) if line.points]
        for panel in panels
    ]
    places = [x for panel in drawable for series in panel for x, _ in series.points]
    x_high = max(places, default=0) or 1
    x_axis = _Axis(0, x_high, PLOT_WIDTH, [t for t in linear_ticks(0, x_high) if t <= x_high])
    legends = [
        _legend_lines(series, values=panel.legend_values)
        for panel, series in zip(panels, drawable, strict=True)
    ]
    panel_top = _TOP + _LEGEND_LINE * (max(map(len, legends), default=1) - 1)
    panel_height = panel_top + PLOT_HEIGHT + _BOTTOM
    width = min(len(panels), _COLUMNS) * _PANEL_WIDTH
    height = _HEADER + math.ceil(len(panels) / _COLUMNS) * panel_height
    parts = []
    for index, (panel, series) in enumerate(zip(panels, drawable, strict=True)):
        row, column = divmod(index, _COLUMNS)
        left = column * _PANEL_WIDTH + _LEFT
        top = _HEADER + row * panel_height + panel_top
        parts.append(f'<g transform="translate({left},{top})">')
        parts += _draw_panel(panel, series, legends[index], x_axis, x_label)
        for x, name in marks:
            if series and x <= x_high:
                parts.append(_draw_mark(x_axis(x), name))
        parts.append("</g>")
    return document(width, height, title, parts)


def _drawable(series: Series, log_scale: bool) -> Series:
    """Leave out points that cannot be drawn."""
    points = [
        (x, y)
        for x, y in series.points
        if 0 <= x < _HUGE and abs(y) < _HUGE and (y > 1 / _HUGE or not log_scale)
    ]
    return Series(series.label, points)


def _legend_lines(series: Sequence[Series], *, values: bool) -> list[list[str]]:
    """Return the entries of a legend, in lines about as wide as the plot.

    values: whether the last value of each series follows its label.
    """
    lines: list[list[str]] = [[]]
    left = float(PLOT_WIDTH)
    for index, line in enumerate(series):
        last = short_number(line.points[-1][1]) if values else ""
        width = _ENTRY + _CHARACTER * (len(line.label) + len(last))
        if lines[-1] and width > left:
            lines.append([])
            left = float(PLOT_WIDTH)
        left -= width
        gap = ' dx="14"' if lines[-1] else ""
        value = f'<tspan font-weight="bold" dx="4">{last}</tspan>' if last else ""
        lines[-1].append(
            f'<tspan fill="{PALETTE[index % len(PALETTE)]}"{gap}>●</tspan>'
            f'<tspan dx="4">{escape(line.label)}</tspan>{value}'
        )
    return lines


def _draw_panel(
    panel: Panel,
    series: Sequence[Series],
    legend: Sequence[Sequence[str]],
    x_axis: _Axis,
    x_label: str,
) -> list[str]:
    """Draw one panel; the origin is the plot's top left corner."""
    unit = f'<tspan font-weight="normal" fill="{FAINT}" dx="6">{escape(panel.unit)}</tspan>'
    title = -30 - _LEGEND_LINE * (len(legend) - 1)
    parts = [text(0, title, panel.title, size=14, bold=True, more=unit if panel.unit else "")]
    if not series:
        parts.append(
            f'<rect width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" fill="none" stroke="{GRID}"/>'
        )
        middle = PLOT_HEIGHT // 2
        parts.append(
            text(PLOT_WIDTH // 2, middle, "no data yet", anchor="middle", colour=FAINT, size=13)
        )
        return parts
    values = [y for line in series for _, y in line.points]
    y_axis = _vertical_axis(min(values), max(values), panel.log_scale)
    parts += _draw_axes(x_axis, y_axis, x_label)
    for index, line in enumerate(series):
        parts += _draw_line(line.points, x_axis, y_axis, PALETTE[index % len(PALETTE)])
    for above, entries in enumerate(reversed(legend)):
        parts.append(text(0, -11 - _LEGEND_LINE * above, "", more="".join(entries)))
    return parts


def _draw_axes(x_axis: _Axis, y_axis: _Axis, x_label: str) -> list[str]:
    parts = []
    for tick in y_axis.ticks:
        y = PLOT_HEIGHT - y_axis(tick)
        parts.append(f'<path d="M0 {y:.1f}H{PLOT_WIDTH}" stroke="{GRID}"/>')
        parts.append(text(-8, y + 4, short_number(tick, _TICK_DIGITS), anchor="end", colour=FAINT))
    for tick in x_axis.ticks:
        x = x_axis(tick)
        parts.append(f'<path d="M{x:.1f} 0V{PLOT_HEIGHT}" stroke="{GRID}"/>')
        parts.append(
            text(
                x,
                PLOT_HEIGHT + 17,
                short_number(tick, _TICK_DIGITS),
                anchor="middle",
                colour=FAINT,
            )
        )
    parts.append(f'<path d="M0 0V{PLOT_HEIGHT}H{PLOT_WIDTH}" fill="none" stroke="{FAINT}"/>')
    parts.append(text(PLOT_WIDTH / 2, PLOT_HEIGHT + 34, x_label, anchor="middle", colour=FAINT))
    return parts


def _draw_mark(x: float, name: str) -> str:
    line = f'<path d="M{x:.1f} 0V{PLOT_HEIGHT}" stroke="{FAINT}" stroke-dasharray="3 3"/>'
    left = x > PLOT_WIDTH / 2  # where a name has room
    return line + text(
        x - 4 if left else x + 4, 12, name, size=11, colour=FAINT, anchor="end" if left else "start"
    )


def _draw_line(points: Sequence[Point], x_axis: _Axis, y_axis: _Axis, colour: str) -> list[str]:
    places = [(f"{x_axis(x):.1f}", f"{PLOT_HEIGHT - y_axis(y):.1f}") for x, y in thinned(points)]
    joined = " ".join(f"{x},{y}" for x, y in places)
    parts = [
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.6" '
        'stroke-linejoin="round"/>'
    ]
    if len(places) <= _FEW_POINTS:  # so that few measurements, and a single one, are visible
        parts += [f'<circle cx="{x}" cy="{y}" r="2.4" fill="{colour}"/>' for x, y in places]
    return parts


def thinned(points: Sequence[Point], limit: int = MAX_POINTS) -> Sequence[Point]:
    """Return at most `limit` points: the lowest and the highest of each stretch, in their order.

    An average would hide a spike of one update.
    """
    if len(points) <= limit:
        return points
    stretch = math.ceil(len(points) / (limit // 2))
    kept: list[Point] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        extremes = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(extremes)
    return kept


def linear_ticks(low: float, high: float) -> list[float]:
    """Return round values, 1, 2 or 5 times a power of ten apart, that enclose `low` to `high`.

    They are at least a fifth of the range apart: 0 to 10 gives 0, 2, ... 10, and 3.2 to 6.9 gives
    3, 4, ... 7. If the two are equal, the value is in the middle.
    """
    if math.isclose(low, high, abs_tol=1 / _HUGE):
        spread = abs(low) / 10 or 1.0
        low, high = low - spread, high + spread
    raw = (high - low) / _INTERVALS
    power = 10.0 ** math.floor(math.log10(raw))
    # The tolerance keeps 0.2, computed as 0.2 + 3e-17, from becoming 0.5.
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten that enclose `low` to `high`, both positive.

    Over many decades only powers of ten remain; where fewer than four would stand, the ticks are
    those of a linear axis: 4.1 to 4.9 is 4, 4.2, ... 5. These stay positive, because the step of a
    range that three of the values enclose is never larger than the first of the three.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [m * 10.0**decade for decade in decades for m in (1, 2, 5)]
    below = max(i for i, value in enumerate(values) if value <= low * (1 + 1e-9))
    above = min(i for i, value in enumerate(values) if value >= high * (1 - 1e-9))
    enclosing = values[below : above + 1]
    if len(enclosing) < 4:
        return linear_ticks(low, high)
    if len(enclosing) <= 2 * _INTERVALS:
        return enclosing
    every = math.ceil(len(decades) / (2 * _INTERVALS))
    return [10.0**decade for decade in decades][::every]


def _vertical_axis(low: float, high: float, log_scale: bool) -> _Axis:
    ticks = log_ticks(low, high) if log_scale else linear_ticks(low, high)
    return _Axis(min(low, ticks[0]), max(high, ticks[-1]), PLOT_HEIGHT, ticks, log_scale)


def short_number(value: float, digits: int = 4) -> str:
    """Write a number in few characters, to `digits` significant ones: 0, 5.914, 12.5k, 3M, 3e-4."""
    value = float(f"{value:.{digits}g}")
    size = abs(value)
    if size >= 1e12 or 0 < size < 1e-2:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    for least, divisor, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            return f"{value / divisor:.{digits}g}{letter}"
    return f"{value:.{digits}g}"
