"""Diagrams: places worked out by hand, round ticks, and a picture that always opens."""

from __future__ import annotations

import math
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from svg_picture import SVG, places, texts

from nmt.plot import (
    MAX_POINTS,
    PLOT_HEIGHT,
    PLOT_WIDTH,
    Panel,
    Series,
    document,
    draw_curves,
    legible,
    linear_ticks,
    log_ticks,
    short_number,
    text,
    thinned,
)


def drawing(points: list[tuple[float, float]], log_scale: bool = False) -> ElementTree.Element:
    panel = Panel("panel", [Series("series", points)], "unit", log_scale)
    return ElementTree.fromstring(draw_curves([panel], "run"))


@pytest.mark.parametrize(
    ("log_scale", "points"),
    [
        (False, [(0, 1), (50, 2), (100, 3)]),
        (True, [(0, 1), (50, 10), (100, 100)]),  # two decades: 10 stands in the middle
    ],
)
def test_points_stand_at_their_places(log_scale: bool, points: list[tuple[float, float]]) -> None:
    # The plot is 400 wide for updates 0 to 100, and 200 high, upwards.
    assert places(drawing(points, log_scale)) == [[(0, 200), (200, 100), (400, 0)]]


def test_panels_share_the_axis_of_updates() -> None:
    early = Panel("early", [Series("", [(0, 0), (10, 1)])], "")
    late = Panel("late", [Series("", [(0, 0), (40, 1)])], "")
    first, second = places(ElementTree.fromstring(draw_curves([early, late], "run")))
    assert (first[-1][0], second[-1][0]) == (PLOT_WIDTH / 4, PLOT_WIDTH)


def test_two_panels_stand_in_a_row_and_the_third_below() -> None:
    panel = Panel("", [], "")
    picture = ElementTree.fromstring(draw_curves([panel] * 3, "run"))
    corners = [
        group.get("transform", "").removeprefix("translate(").rstrip(")").split(",")
        for group in picture.iter(f"{SVG}g")
    ]
    (x0, y0), (x1, y1), (x2, y2) = ((int(x), int(y)) for x, y in corners)
    assert x0 == x2 < x1
    assert y0 == y1 < y2


@pytest.mark.parametrize(
    ("ticks_of", "low", "high", "ticks"),
    [
        (linear_ticks, 0, 10, [0, 2, 4, 6, 8, 10]),
        (linear_ticks, 0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (linear_ticks, 3.2, 6.9, [3, 4, 5, 6, 7]),
        (linear_ticks, 0, 100_000, [0, 20_000, 40_000, 60_000, 80_000, 100_000]),
        (linear_ticks, 1e-5, 7e-4, [0, 2e-4, 4e-4, 6e-4, 8e-4]),
        (linear_ticks, -1, 1, [-1, -0.5, 0, 0.5, 1]),
        (linear_ticks, 5, 5, [4.4, 4.6, 4.8, 5, 5.2, 5.4, 5.6]),
        (linear_ticks, 0, 0, [-1, -0.5, 0, 0.5, 1]),
        (log_ticks, 1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (log_ticks, 4.3, 160, [2, 5, 10, 20, 50, 100, 200]),
        (log_ticks, 4.1, 4.9, [4, 4.2, 4.4, 4.6, 4.8, 5]),  # 2 and 5 would say little
        (log_ticks, 2, 200_000, [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]),
        (log_ticks, 7, 7, [6, 6.5, 7, 7.5, 8]),
    ],
)
def test_ticks_are_round(
    ticks_of: Callable[[float, float], list[float]], low: float, high: float, ticks: list[float]
) -> None:
    assert ticks_of(low, high) == pytest.approx(ticks)


@given(st.floats(1e-30, 1e30), st.floats(1, 1e6))
def test_log_ticks_are_positive(low: float, factor: float) -> None:
    assert min(log_ticks(low, low * factor)) > 0


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (5.91372, "5.914"),
        (0.3, "0.3"),
        (0.1 + 0.2, "0.3"),
        (3e-4, "3e-4"),
        (1.25e-5, "1.25e-5"),
        (-2, "-2"),
        (9999.7, "10k"),
        (12_500, "12.5k"),
        (100_000, "100k"),
        (3_000_000, "3M"),
        (2.5e13, "2.5e13"),
    ],
)
def test_numbers_are_short(value: float, written: str) -> None:
    assert short_number(value) == written


def test_a_long_series_is_thinned_and_keeps_its_spike() -> None:
    points = [(float(x), math.sin(x / 5000)) for x in range(123_456)]
    points[77_777] = (77_777.0, 9.0)
    kept = thinned(points)
    assert len(kept) <= MAX_POINTS
    assert (77_777.0, 9.0) in kept
    assert list(kept) == sorted(kept)
    assert [len(line) for line in places(drawing(points))] == [len(kept)]
    assert thinned(points[:MAX_POINTS]) == points[:MAX_POINTS]  # a short one is drawn whole


def test_what_cannot_be_drawn_is_left_out() -> None:
    nan, infinity = math.nan, math.inf
    picture = drawing([(0, 1), (10, nan), (20, infinity), (30, -infinity), (nan, 2), (40, 3)])
    assert places(picture) == [[(0, PLOT_HEIGHT), (PLOT_WIDTH, 0)]]
    # On a logarithmic axis neither zero nor less has a place.
    picture = drawing([(0, 1), (20, 0), (30, -1), (40, 100)], log_scale=True)
    assert places(picture) == [[(0, PLOT_HEIGHT), (PLOT_WIDTH, 0)]]


@pytest.mark.parametrize("points", [[], [(5, math.nan)]])
def test_a_panel_without_points_says_so(points: list[tuple[float, float]]) -> None:
    picture = drawing(points)
    assert "no data yet" in texts(picture)
    assert places(picture) == []


def test_one_point_is_visible() -> None:
    (dot,) = drawing([(100, 5.0)]).iter(f"{SVG}circle")
    assert (dot.get("cx"), dot.get("cy")) == ("400.0", "100.0")


def test_titles_units_and_labels_are_escaped() -> None:
    panel = Panel("a < b", [Series("x & 'y'", [(1, 1)])], "<unit>")
    written = " ".join(texts(ElementTree.fromstring(draw_curves([panel], '<script>"&"</script>'))))
    for part in ("a < b", "x & 'y'", "<unit>", '<script>"&"</script>'):
        assert part in written


def test_the_background_is_drawn() -> None:
    picture = drawing([(1, 1)])
    background = next(picture.iter(f"{SVG}rect"))
    assert (background.get("fill"), background.get("width")) == ("#ffffff", picture.get("width"))


def test_the_legend_gives_the_last_value() -> None:
    assert any("series" in one and "3.142" in one for one in texts(drawing([(1, 9), (2, math.pi)])))


def test_a_legend_is_broken_into_lines_as_wide_as_the_plot() -> None:
    # Twenty characters of 12 pixels' height are some 130 wide, and the plot is 400.
    series = [Series(f"the series number {number}", [(1, 1)]) for number in range(6)]
    panel = Panel("", series, "", legend_values=False)
    picture = ElementTree.fromstring(draw_curves([panel], "run"))
    assert [one.count("number") for one in texts(picture) if "number" in one] == [2, 2, 2]
    heights = [
        float(one.get("y", ""))
        for one in picture.iter(f"{SVG}text")
        if "number" in "".join(one.itertext())
    ]
    assert len(set(heights)) == 3
    assert max(heights) < 0  # above the plot


@given(st.lists(st.tuples(st.floats(), st.floats())), st.booleans())
def test_any_numbers_make_a_picture(points: list[tuple[float, float]], log_scale: bool) -> None:
    for line in places(drawing(points, log_scale)):
        for x, y in line:
            assert 0 <= x <= PLOT_WIDTH
            assert 0 <= y <= PLOT_HEIGHT


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("▁Straße 東京", "▁Straße 東京"),
        ("\0\n", "<U+0000><U+000A>"),
        ("a\u202eb", "a<U+202E>b"),  # which would turn the rest round
        ("\u00a0", "<U+00A0>"),
        ("\ufffe\ud800", "<U+FFFE><U+D800>"),
    ],
)
def test_invisible_characters_are_shown_by_their_numbers(content: str, shown: str) -> None:
    assert legible(content) == shown


@given(st.text())
def test_any_text_makes_a_picture(content: str) -> None:
    picture = ElementTree.fromstring(document(100, 50, content, [text(1, 2, content)]))
    assert texts(picture) == [legible(content)] * 2
