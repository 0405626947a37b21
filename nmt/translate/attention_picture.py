"""Draws the attention of one sentence pair: as a matrix, or all of it.

The matrix is that of Bahdanau et al. (2015), figure 3: target tokens by source tokens. All of it is
drawn as by Vaswani et al. (2017), figures 3 to 5: a row of panels for each kind of attention, with
a panel for each layer. Tokens on the left attend to those on the right. Each head draws a line for
each weight, as opaque as that, in its own colour and at its own height. The decoder's states are
shown at the token that they predict.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nmt.system.plot import FAINT, GRID, HEADER, MARGIN, draw, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nmt.models.base import AttentionWeights
    from nmt.translate.alignment import Floats

THRESHOLD = 0.05  # smaller weights are not drawn: most weights are smaller, and hardly visible

_BOS, _EOS = "<s>", "</s>"
_NOTES = (
    "Left: the token that attends; of the decoder, the one about to be predicted.\n"
    f"Right: what it attends to. Lines are as opaque as weights; none is below {THRESHOLD}.\n"
    "In a browser, point at a line to show only its head."
)
_HOVER = "<style>[id^=axes]:has([id^=head]:hover) [id^=head]:not(:hover) { opacity: 0.06 }</style>"
_FONT_SIZE = 11
_GAP = 6  # between a token and its place
_CELL = 18  # of the matrix
_ROW = 15  # from token to token
_LANES = 0.7  # of a row: the height of the lines of all heads
_LINES = 110  # width
_BETWEEN = 34  # panels
_LEGEND = 64  # a legend's height, and that of its further rows
_HEADS_IN_A_ROW, _HEAD = 8, 70


def draw_matrix(weights: Floats, src_tokens: Sequence[str], tgt_tokens: Sequence[str]) -> str:
    """Return an SVG document of the attention (T, S) of target tokens to source tokens."""
    left = MARGIN + _GAP + max(map(_width, tgt_tokens), default=0)
    top = HEADER + _GAP + max(map(_width, src_tokens), default=0)
    width = left + max(len(src_tokens) * _CELL, 100) + MARGIN  # the title has room
    height = top + len(tgt_tokens) * _CELL + MARGIN

    values = weights.tolist(), (src_tokens, tgt_tokens), left, top
    return draw(width, height, "Attention", _fill_matrix, *values)


def _fill_matrix(figure: Figure, weights: Any, tokens: Any, left: int, top: int) -> None:
    src_tokens, tgt_tokens = tokens
    rows, columns = len(tgt_tokens), len(src_tokens)
    axes = _axes(figure, left, top, columns * _CELL, rows * _CELL)
    axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=1, edgecolors=GRID, linewidth=1)
    for column, token in enumerate(src_tokens):
        _write(axes, token, (column + 0.5, 0), (0, _GAP), ha="left", rotation=90)
    for row, token in enumerate(tgt_tokens):
        _write(axes, token, (0, row + 0.5), (-_GAP, 0), ha="right")
    axes.set(xlim=(0, columns), ylim=(rows, 0))


def draw_attention(
    weights: AttentionWeights, src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> str:
    """Return an SVG document of all layers and heads.

    weights: of one pair: B is 1; src_tokens: subwords of the source, S - 1: without eos;
    tgt_tokens: subwords of the target, T - 1: without bos or eos.
    """
    assert weights.cross.shape[1] == 1
    source, read, predicted = [*src_tokens, _EOS], [_BOS, *tgt_tokens], [*tgt_tokens, _EOS]
    rows = [
        (name, layers[:, 0].tolist(), left, right)
        for name, layers, left, right in (
            ("Encoder", weights.encoder, source, source),
            ("Decoder", weights.decoder, predicted, read),
            ("Cross-attention", weights.cross, predicted, source),
        )
        if len(layers)
    ]
    heads = max(len(layers[0]) for _, layers, _, _ in rows)
    legend = _LEGEND + _ROW * -(-heads // _HEADS_IN_A_ROW)
    margin = _GAP + max(_width(token) for token in {*source, *read})
    panel_width = 2 * margin + _LINES + _BETWEEN
    most_layers = max(len(layers) for _, layers, _, _ in rows)
    width = 2 * MARGIN + max(most_layers * panel_width - _BETWEEN, _HEADS_IN_A_ROW * _HEAD)
    tokens = sum(max(len(left), len(right)) for _, _, left, right in rows)
    height = HEADER + legend + _ROW * tokens + 2 * _BETWEEN * len(rows)
    picture = draw(width, height, "Attention", _fill_rows, rows, heads, margin, (width, height))
    return picture.replace("<defs>", f"{_HOVER}<defs>", 1)


def _fill_rows(figure: Figure, rows: Any, heads: int, margin: int, size: Any) -> None:
    import numpy as np
    from matplotlib import colormaps

    width, height = size
    colours = colormaps["tab10" if heads <= 10 else "turbo"].resampled(heads)(range(heads))
    for head, colour in enumerate(colours):
        row, column = divmod(head, _HEADS_IN_A_ROW)
        place = (MARGIN + column * _HEAD) / width, 1 - (HEADER + _ROW * row) / height
        figure.text(*place, "●", color=colour, va="top")
        figure.text(place[0] + 12 / width, place[1], f"head {head + 1}", va="top")
    legend = _ROW * -(-heads // _HEADS_IN_A_ROW)
    below = 1 - (HEADER + legend + _GAP) / height
    figure.text(MARGIN / width, below, _NOTES, color=FAINT, va="top")
    top = HEADER + _LEGEND + legend + _BETWEEN
    for name, layers, left, right in rows:
        row_height = _ROW * max(len(left), len(right))
        for number, layer in enumerate(np.array(layers, np.float32)):
            x = MARGIN + margin + number * (2 * margin + _LINES + _BETWEEN)
            axes = _axes(figure, x, top, _LINES, row_height)
            axes.set(xlim=(0, 1), ylim=(row_height / _ROW - 0.5, -0.5))
            title = f"{name}, layer {number + 1}"
            _write(axes, title, (0, -0.5), (-margin, 16), ha="left", size=13, weight="bold")
            _draw_heads(axes, f"{name}{number + 1}", layer, colours)
            for row, token in enumerate(left):
                _write(axes, token, (0, row), (-_GAP, 0), ha="right")
            for row, token in enumerate(right):
                _write(axes, token, (1, row), (_GAP, 0), ha="left")
        top += row_height + 2 * _BETWEEN


def _draw_heads(axes: Axes, panel: str, weights: Floats, colours: Floats) -> None:
    """Draw a line for each weight (H, left, right), those of a head in a group of its own."""
    from matplotlib.collections import LineCollection

    heads = len(weights)
    for head, of_head in enumerate(weights):
        lane = (head - (heads - 1) / 2) * min(0.17, _LANES / heads)
        places = list(zip(*(of_head >= THRESHOLD).nonzero(), strict=True))
        lines = [((0, row + lane), (1, column + lane)) for row, column in places]
        shades = [(*colours[head][:3], of_head[place]) for place in places]
        gid = f"head{head + 1}-{panel}"
        axes.add_collection(LineCollection(lines, colors=shades, linewidths=1.2, gid=gid))


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return a place in a picture, in points from its top left corner."""
    all_width, all_height = 72 * figure.get_size_inches()
    bottom = all_height - top - height
    place = left / all_width, bottom / all_height, width / all_width, height / all_height
    axes = figure.add_axes(place)
    axes.axis("off")
    return axes


def _write(
    axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write text `offset` points from a place."""
    style = {"size": _FONT_SIZE, "va": "center", "rotation_mode": "anchor", **style}
    axes.annotate(legible(text), place, xytext=offset, textcoords="offset points", **style)


def _width(token: str) -> int:
    """Estimate the width of a token in points; CJK characters are as wide as high."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in legible(token))
    return round(_FONT_SIZE * (wide + 0.62 * (len(legible(token)) - wide)))
