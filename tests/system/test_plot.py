"""Diagrams: where points stand, what is written, and a picture that always opens."""

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from svg_picture import places, texts, titles

from nmt.errors import NMTError, UsageError
from nmt.system.plot import Panel, draw_curves, legible

pytest.importorskip("matplotlib", reason="needs the extra plot")

Points = list[tuple[float, float]]


def drawing(*of_panels: Points, log_scale: bool = False) -> ElementTree.Element:
    panels = [
        Panel(f"panel {number}", [("series", points)], "unit", log_scale)
        for number, points in enumerate(of_panels)
    ]
    return ElementTree.fromstring(draw_curves(panels, "run"))


@pytest.mark.parametrize(
    ("log_scale", "points"),
    [
        (False, [(0, 1), (50, 2), (100, 3)]),
        (True, [(0, 1), (50, 10), (100, 100)]),  # two decades: 10 stands in the middle
        (False, [(0, 1), (10, math.nan), (50, 2), (60, math.inf), (70, -math.inf), (100, 3)]),
        # On a logarithmic axis neither zero nor less has a place.
        (True, [(0, 1), (10, 0), (20, -1), (50, 10), (100, 100)]),
    ],
)
def test_points_stand_at_their_places(log_scale: bool, points: Points) -> None:
    (((x0, y0), (x1, y1), (x2, y2)),) = places(drawing(points, log_scale=log_scale))
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 - y1 == pytest.approx(y1 - y2)
    assert x0 < x1 < x2 and y0 > y1 > y2


def test_panels_stand_in_two_columns_and_share_the_axis_of_updates() -> None:
    first, second, third = places(drawing([(0, 0), (10, 1)], [(0, 0), (40, 1)], [(0, 0), (40, 1)]))
    assert 4 * (first[1][0] - first[0][0]) == pytest.approx(second[1][0] - second[0][0])
    assert third[0][0] == first[0][0] < second[0][0]
    assert third[0][1] > first[0][1] == second[0][1]


def test_a_spike_of_a_long_series_is_drawn() -> None:
    points = [(float(x), math.sin(x / 5000)) for x in range(123_456)]
    (before,) = places(drawing([*points, (123_456.0, 9.0)]))
    points[77_777] = (77_777.0, 9.0)
    (curve,) = places(drawing(points))
    assert min(y for _, y in curve) == pytest.approx(min(y for _, y in before), abs=1)
    assert len(curve) < 1000


@pytest.mark.parametrize("log_scale", [False, True])
def test_any_numbers_make_a_picture(log_scale: bool) -> None:
    panels = [
        points
        for value in (0.0, 5e-324, 1e200, 1.7e308, -1e299)
        for points in ([(value, 1.0)], [(1.0, value)], [(1.0, 1.0), (2.0, value)])
    ]
    drawing(*panels, log_scale=log_scale)


def test_all_that_is_written_is_written_as_it_is() -> None:
    # Japanese, Hindi and Arabic have no characters in matplotlib's own font.
    names = ("a < b & 'c'", "$x$ \\alpha", "_run", "日本語 हिन्दी عربي", "two\nlines")
    panel = Panel("<title>", [(name, [(1, 9.0), (2, math.pi)]) for name in names], "$\\unit")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = draw_curves([panel], "</svg>", best=1)
        assert draw_curves([panel], "</svg>", best=1) == picture
    assert "<dc:date>" not in picture
    root = ElementTree.fromstring(picture)
    assert titles(root) == ["<title>", "</svg>"]
    assert {"$\\unit", "best"} <= {text.strip() for text in texts(root)}
    # The legend gives the last value.
    assert {f"{legible(name)} 3.142" for name in names} <= {text.strip() for text in texts(root)}


PICTURE = [Panel("panel", [("series", [(0, 1), (9, 2)])], "unit")], "run"
SCRIPT = f"""
import sys
from nmt.system.plot import Panel, draw_curves
print(draw_curves(*{PICTURE}), end="")
sys.exit("matplotlib" in sys.modules)  # which would have read the settings of this folder
"""


WIDE = b"lines.linewidth: 9\nfigure.facecolor: red\n"


@pytest.mark.parametrize(
    ("variable", "value", "file", "content"),
    [
        ("MPLBACKEND", "nonsense", "mine", b""),
        ("", "", "matplotlibrc", WIDE),
        ("", "", "matplotlibrc", b"\xff"),
        ("", "", "matplotlibrc", None),  # a pipe
        ("MATPLOTLIBRC", "mine", "mine", WIDE),
        ("MPLCONFIGDIR", ".", "matplotlibrc", WIDE),
    ],
)
def test_no_settings_of_the_user_change_a_picture_or_are_read(
    variable: str, value: str, file: str, content: bytes | None, tmp_path: Path
) -> None:
    if content is None:
        os.mkfifo(tmp_path / file)
    else:
        (tmp_path / file).write_bytes(content)
    options: Any = {"cwd": tmp_path, "env": os.environ | ({variable: value} if variable else {})}
    options |= {"capture_output": True, "text": True, "timeout": 300}
    drawn = subprocess.run([sys.executable, "-c", SCRIPT], check=True, **options)
    assert drawn.stdout == draw_curves(*PICTURE)
    assert not drawn.stderr


def test_a_picture_that_cannot_be_drawn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NMTError):
        draw_curves(*PICTURE)


def test_without_matplotlib_we_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="pip install matplotlib`"):
        draw_curves([], "run")
