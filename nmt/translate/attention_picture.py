"""Draws the attention of one sentence pair as SVG: as a matrix, or all of it.

The matrix is that of Bahdanau et al. (2015), figure 3: target tokens by source tokens, the darker,
the more attention. All attention is drawn as by Vaswani et al. (2017), figures 3 to 5: there is a
row of panels for the encoder, the decoder and cross-attention, with a panel for each layer. In a
panel, tokens on the left attend to tokens on the right. Each head draws a line for each weight, as
opaque as the weight, in its own colour and at its own height, so that heads do not hide each other.
The decoder's states are shown at the token that they predict.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.plot import FAINT, GRID, PALETTE, document, legible, text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from nmt.models.base import AttentionWeights

THRESHOLD = 0.05
"""Smaller weights are not drawn: most weights are smaller, and hardly visible."""

_BOS, _EOS = "<s>", "</s>"
_NOTES = (
    "Left: the token that attends; of the decoder, the one about to be predicted.",
    f"Right: what it attends to. Lines are as opaque as weights; none is below {THRESHOLD}.",
    "In a browser, point at a line to show only its head.",
)
_STYLE = "<style>.heads:hover g:not(:hover){opacity:0.06}</style>"
_FONT_SIZE = 11
_CELL = 18  # of the matrix
_TITLE_WIDTH = 100
_ROW = 15  # from token to token
_LANES = 11  # height of the lines of all heads within a row
_LINES = 110  # width
_MARGIN, _GAP = 24, 6
_TITLE = 26  # from a panel's top to its first row
_BETWEEN = 34  # panels
_HEADER = 48
_HEADS_IN_A_ROW, _HEAD = 8, 70
_NOTE = 16


@dataclass(frozen=True)
class _Panel:
    title: str
    weights: Tensor  # (H, left, right)
    left: Sequence[str]
    right: Sequence[str]

    @property
    def height(self) -> int:
        return _TITLE + _ROW * max(len(self.left), len(self.right))


def draw_matrix(
    weights: NDArray[np.float32], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> str:
    """Return an SVG document of the attention (T, S) of target tokens to source tokens."""
    left = _MARGIN + _GAP + max(map(_width, tgt_tokens), default=0)
    above = max(map(_width, src_tokens), default=0)
    top = _HEADER + above + _GAP
    parts = []
    for column, token in enumerate(src_tokens):
        x = left + (column + 0.5) * _CELL + 4
        label = text(0, 0, token, size=_FONT_SIZE)
        parts.append(f'<g transform="translate({x:g},{top - _GAP}) rotate(-90)">{label}</g>')
    for row, token in enumerate(tgt_tokens):
        y = top + row * _CELL
        parts.append(text(left - _GAP, y + 13, token, size=_FONT_SIZE, anchor="end"))
        parts += [
            f'<rect x="{left + column * _CELL}" y="{y}" width="{_CELL}" height="{_CELL}" '
            f'fill="{PALETTE[0]}" fill-opacity="{weight:.2f}" stroke="{GRID}"/>'
            for column, weight in enumerate(weights[row].tolist())
        ]
    width = left + max(len(src_tokens) * _CELL, _TITLE_WIDTH) + _MARGIN
    return document(width, top + len(tgt_tokens) * _CELL + _MARGIN, "Attention", parts)


def draw_attention(
    weights: AttentionWeights, src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> str:
    """Return an SVG document of all layers and heads.

    Args:
        weights: of one pair: B is 1.
        src_tokens: subwords of the source, S - 1: without eos.
        tgt_tokens: subwords of the target, T - 1: without bos or eos.
    """
    assert weights.cross.shape[1] == 1
    source, read, predicted = [*src_tokens, _EOS], [_BOS, *tgt_tokens], [*tgt_tokens, _EOS]
    rows = [
        [
            _Panel(f"{name}, layer {number}", layer[0].cpu(), left, right)
            for number, layer in enumerate(layers, start=1)
        ]
        for name, layers, left, right in (
            ("Encoder", weights.encoder, source, source),
            ("Decoder", weights.decoder, predicted, read),
            ("Cross-attention", weights.cross, predicted, source),
        )
    ]
    panels = [panel for row in rows for panel in row]
    colours = _colours(max(len(panel.weights) for panel in panels))
    margin = _GAP + max(_width(token) for token in {*source, *read})
    panel_width = 2 * margin + _LINES + _BETWEEN
    width = 2 * _MARGIN + max(max(map(len, rows)) * panel_width - _BETWEEN, _HEADS_IN_A_ROW * _HEAD)
    parts, top = _legend(colours)
    for row in filter(None, rows):
        for number, panel in enumerate(row):
            left = _MARGIN + margin + number * panel_width
            parts.append(f'<g transform="translate({left},{top})">')
            parts += _draw(panel, colours, margin)
            parts.append("</g>")
        top += row[0].height + _BETWEEN
    return document(width, top, "Attention", [_STYLE, *parts])


def _legend(colours: Sequence[str]) -> tuple[list[str], int]:
    """Draw the heads' colours and the notes; also return the top of the first panels."""
    parts = []
    for number, colour in enumerate(colours):
        row, column = divmod(number, _HEADS_IN_A_ROW)
        x, y = _MARGIN + column * _HEAD, _HEADER + row * _NOTE + 12
        dot = f'<tspan fill="{colour}">●</tspan><tspan dx="4">head {number + 1}</tspan>'
        parts.append(text(x, y, "", more=dot))
    top = _HEADER + -(-len(colours) // _HEADS_IN_A_ROW) * _NOTE + 6
    for note in _NOTES:
        parts.append(text(_MARGIN, top + 12, note, colour=FAINT))
        top += _NOTE
    return parts, top + _NOTE


def _draw(panel: _Panel, colours: Sequence[str], margin: int) -> list[str]:
    """Draw one panel; its lines begin at x = 0."""
    heads, rows, columns = panel.weights.shape
    assert (rows, columns) == (len(panel.left), len(panel.right))
    parts = [text(-margin, 12, panel.title, size=14, bold=True)]
    for x, anchor, tokens in (
        (-_GAP, "end", panel.left),
        (_LINES + _GAP, "start", panel.right),
    ):
        parts += [
            text(x, _middle(row) + 4, token, size=_FONT_SIZE, anchor=anchor)
            for row, token in enumerate(tokens)
        ]
    parts.append('<g class="heads">')
    step = min(2.5, _LANES / heads)
    for head, of_head in enumerate(panel.weights):
        lane = (head - (heads - 1) / 2) * step
        parts.append(f'<g stroke="{colours[head]}" stroke-width="1.2">')
        parts += [
            f'<line y1="{_middle(row) + lane:.1f}" x2="{_LINES}" '
            f'y2="{_middle(column) + lane:.1f}" opacity="{of_head[row, column]:.2f}"/>'
            for row, column in (of_head >= THRESHOLD).nonzero().tolist()
        ]
        parts.append("</g>")
    parts.append("</g>")
    return parts


def _middle(row: int) -> float:
    return _TITLE + (row + 0.5) * _ROW


def _colours(count: int) -> list[str]:
    """Return different colours: the palette's, then darker ones."""
    rounds = -(-count // len(PALETTE))
    colours = []
    for number in range(count):
        darkened = 1 - 0.7 * (number // len(PALETTE)) / rounds
        parts = bytes.fromhex(PALETTE[number % len(PALETTE)].removeprefix("#"))
        colours.append("#" + bytes(round(darkened * part) for part in parts).hex())
    return colours


def _width(token: str) -> int:
    """Estimate the width of a token in pixels; CJK characters are as wide as high."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in legible(token))
    return round(_FONT_SIZE * (wide + 0.62 * (len(legible(token)) - wide)))
