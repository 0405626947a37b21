"""Pictures as SVG files: line diagrams, and the frame, text and colours of all pictures.

matplotlib, an extra, draws them in a process of its own. When it is imported, it reads settings of
the current folder and of the user, which may be wrong or block. So a Python caller's matplotlib
also stays as it is. Text stays text, which the viewer shows in fonts of any script. Equal pictures
are equal files.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nmt.errors import UsageError
from nmt.system.own_process import full_name, in_own_process

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINT, GRID = "#59636e", "#e4e7eb"
# Okabe and Ito's colours without yellow: readers with any colour vision can tell them apart.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARGIN = 24
HEADER = 48  # points from the top of a picture to what is below its title

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.sans-serif": ["DejaVu Sans"],  # which comes with matplotlib, and then the viewer's
    "grid.color": GRID,
    "lines.markersize": 4,
    "path.simplify_threshold": 1.0,  # a curve of a million points has no more than pixels show
    "svg.fonttype": "none",
    "svg.hashsalt": "nmt",
    "text.color": "#1f2328",
    "text.parse_math": False,  # a dollar is a dollar
    "xtick.color": FAINT,
    "xtick.major.size": 0,
    "ytick.color": FAINT,
    "ytick.major.size": 0,
}


def require_matplotlib() -> None:
    """Check that pictures can be drawn.

    UsageError if matplotlib is missing.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("pictures need matplotlib; run `pip install matplotlib`")


def draw(width: float, height: float, title: str, fill: Callable[..., None], *values: Any) -> str:
    """Return an SVG document with a title in the top left corner.

    width: in points.
    height: in points.
    title: any text.
    fill: draws the rest of the picture into a `Figure`; a function of a module.
    values: further ones for `fill`, as JSON can hold them.
    UsageError if matplotlib is missing. NMTError if it fails.
    """
    require_matplotlib()
    asked = width, height, title, full_name(fill), values
    # The file of settings in the current folder comes first: that is `/`, and has none.
    settings = {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "svg"}
    return str(in_own_process("matplotlib cannot draw", _draw, *asked, **settings))


def _draw(width: float, height: float, title: str, fill: str, values: Sequence[Any]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(_STYLE)
    content = io.BytesIO()
    figure = Figure((width / 72, height / 72))
    figure.text(MARGIN / width, 1 - 34 / height, legible(title), size=16, weight="bold")
    pkgutil.resolve_name(fill)(figure, *values)
    figure.savefig(content, format="svg", metadata={"Date": None, "Title": legible(title)})
    return content.getvalue().decode()


def legible(content: str) -> str:
    """Replace characters that are invisible, or not allowed in XML, by codes such as `<U+000A>`."""
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in content)


Point = tuple[float, float]
Series = tuple[str, Sequence[Point]]
"""The label of a line, and its points (x, value) by ascending x, from 0. NaN is left out."""

_COLUMNS = 2
_PLOT_WIDTH, _PLOT_HEIGHT = 400, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 30, 48  # around a plot
_PANEL_WIDTH = _LEFT + _PLOT_WIDTH + _RIGHT
_FEW_POINTS = 40  # so that few measurements, and a single one, are visible
_LEGEND_LINE = 15
_DASHES = ("-", "--", ":")  # of the first six series, of the next ones
_HUGE = 1e300  # beyond it the arithmetic of an axis may overflow


@dataclass(frozen=True)
class Panel:
    """One diagram: series that share a vertical axis."""

    title: str
    series: Sequence[Series]
    unit: str
    log_scale: bool = False
    """Whether the vertical axis is logarithmic; values of 0 or less are then left out."""


def draw_curves(
    panels: Sequence[Panel], title: str, *, x_label: str = "update", best: float | None = None
) -> str:
    """Return an SVG document with the panels in two columns; x begins at 0.

    A legend above each gives the last value of each series.

    best: the place on the x axis that a vertical line marks as the best.
    """
    drawable = [replace(panel, series=_drawable(panel)) for panel in panels]
    top = _TOP + _LEGEND_LINE * max((len(panel.series) for panel in drawable), default=0)
    panel_height = top + _PLOT_HEIGHT + _BOTTOM
    width = min(len(panels), _COLUMNS) * _PANEL_WIDTH
    height = HEADER + math.ceil(len(panels) / _COLUMNS) * panel_height
    values = list(map(vars, drawable)), (width, height, panel_height), x_label, best
    return draw(width, height, title, _fill, *values)


def _fill(figure: Figure, drawable: Any, sizes: Any, x_label: str, best: float | None) -> None:
    width, height, panel_height = sizes
    panels = [Panel(**values) for values in drawable]
    every = (points for panel in panels for _, points in panel.series)
    x_high = max((x for points in every for x, _ in points), default=0)
    for index, panel in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        left = column * _PANEL_WIDTH + _LEFT
        bottom = height - HEADER - (row + 1) * panel_height + _BOTTOM
        place = (left / width, bottom / height, _PLOT_WIDTH / width, _PLOT_HEIGHT / height)
        axes = figure.add_axes(place, xlabel=x_label, xlim=(0, (x_high or 1) * 1.01))
        _draw_panel(axes, panel)
        if best is not None and panel.series and best <= x_high:
            axes.axvline(best, color=FAINT, linewidth=1, linestyle=":")
            side = "right" if best > x_high / 2 else "left"  # where there is room
            above = axes.get_xaxis_transform()
            axes.text(best, 0.97, " best ", transform=above, ha=side, va="top", color=FAINT)


def _drawable(panel: Panel) -> list[Series]:
    least = 1 / _HUGE if panel.log_scale else -_HUGE
    series = [
        (legible(label), [(x, y) for x, y in points if 0 <= x < _HUGE and least < y < _HUGE])
        for label, points in panel.series
    ]
    return [(label, points) for label, points in series if points]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    series = panel.series
    pad = 8 + _LEGEND_LINE * len(series)
    axes.set_title(legible(panel.title), loc="left", pad=pad, size=12, weight="bold")
    axes.set_title(legible(panel.unit), loc="right", pad=pad, size=9, color=FAINT)
    axes.xaxis.label.set_color(FAINT)
    if not series:
        axes.set(xticks=(), yticks=())
        axes.text(0.5, 0.5, "no data yet", transform=axes.transAxes, ha="center", color=FAINT)
        return
    if panel.log_scale:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda tick, _: short_number(tick, 6))
    lines = [
        axes.plot(
            *zip(*points, strict=True),
            color=PALETTE[number % len(PALETTE)],
            linestyle=_DASHES[number // len(PALETTE) % len(_DASHES)],
            marker="o" if len(points) <= _FEW_POINTS else "",
        )[0]
        for number, (_, points) in enumerate(series)
    ]
    axes.legend(
        lines,
        [f"{label} {short_number(points[-1][1])}" for label, points in series],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        borderaxespad=0,
        borderpad=0.3,
        labelspacing=0.3,
        handlelength=1.5,
    )


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
