"""A picture of attention: what is in it, and where lines begin and end."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from svg_picture import SVG, texts, titles
from torch import Tensor

from nmt.models.base import AttentionWeights
from nmt.translate.attention_picture import draw_attention, draw_matrix

# "a b" is translated by "x". The cross-attention of one head: rows of x and eos, columns of a, b
# and eos.
CROSS = torch.tensor([[0.25, 0.72, 0.03], [0.0, 0.0, 1.0]])


def weights(
    encoder: int = 0, decoder: int = 0, cross: Tensor = CROSS[None, None, None]
) -> AttentionWeights:
    """Weights of the pair, with so many layers of self-attention, each of two heads."""
    return AttentionWeights(
        torch.eye(3).expand(encoder, 1, 2, 3, 3), torch.eye(2).expand(decoder, 1, 2, 2, 2), cross
    )


def drawing(
    weights: AttentionWeights, src: tuple[str, ...] = ("▁a", "b"), tgt: tuple[str, ...] = ("▁x",)
) -> ElementTree.Element:
    return ElementTree.fromstring(draw_attention(weights, src, tgt))


def panels(picture: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in picture.iter(f"{SVG}g") if group.get("transform")]


def height(element: ElementTree.Element, side: str) -> float:
    return float(element.get(side, "nan"))


def lines(panel: ElementTree.Element) -> list[tuple[str, str, float]]:
    """The tokens that each line joins, and its opacity."""
    left: dict[str, float] = {}
    right: dict[str, float] = {}
    for text in panel.iter(f"{SVG}text"):
        if not text.get("font-weight"):  # which only titles have
            side = left if text.get("text-anchor") == "end" else right
            side[text.text or ""] = height(text, "y")

    def nearest(tokens: dict[str, float], y: float) -> str:
        # A text's base line is some pixels below its middle.
        return min(tokens, key=lambda token: abs(tokens[token] - 4 - y))

    return [
        (
            nearest(left, height(line, "y1")),
            nearest(right, height(line, "y2")),
            height(line, "opacity"),
        )
        for line in panel.iter(f"{SVG}line")
    ]


def test_a_matrix_has_a_cell_for_each_pair_of_tokens_as_opaque_as_its_weight() -> None:
    picture = ElementTree.fromstring(draw_matrix(CROSS[:1, :2].numpy(), ("▁a", "<b>"), ("▁x",)))
    cells = [cell for cell in picture.iter(f"{SVG}rect") if cell.get("fill-opacity")]
    assert [cell.get("fill-opacity") for cell in cells] == ["0.25", "0.72"]
    assert texts(picture) == ["Attention", "▁a", "<b>", "▁x"]


def test_a_line_joins_two_tokens_and_is_as_opaque_as_its_weight() -> None:
    (panel,) = panels(drawing(weights()))
    # x is predicted by looking at a and b, the end by looking at the end; 0.03 is below 0.05.
    assert lines(panel) == [("▁x", "▁a", 0.25), ("▁x", "b", 0.72), ("</s>", "</s>", 1.0)]


def test_decoder_states_stand_at_the_token_that_they_predict() -> None:
    decoder = panels(drawing(weights(decoder=1)))[0]
    assert texts(decoder) == ["Decoder, layer 1", "▁x", "</s>", "<s>", "▁x"]


def test_each_layer_of_each_attention_has_a_panel() -> None:
    picture = drawing(weights(encoder=2, decoder=1, cross=CROSS.expand(3, 1, 1, 2, 3)))
    names = [f"Encoder, layer {n}" for n in (1, 2)] + ["Decoder, layer 1"]
    names += [f"Cross-attention, layer {n}" for n in (1, 2, 3)]
    assert titles(picture) == ["Attention", *names]
    corners = [panel.get("transform", "")[len("translate(") : -1] for panel in panels(picture)]
    places = [tuple(map(float, corner.split(","))) for corner in corners]
    columns, rows = sorted({x for x, _ in places}), sorted({y for _, y in places})
    assert [(columns.index(x), rows.index(y)) for x, y in places] == [
        *[(0, 0), (1, 0)],
        (0, 1),
        *[(0, 2), (1, 2), (2, 2)],
    ]
    # The last panel's last row is inside the picture.
    last = max(float(text.get("y", 0)) for text in panels(picture)[-1].iter(f"{SVG}text"))
    assert rows[-1] + last < height(picture, "height")


@pytest.mark.parametrize("heads", [1, 8, 16])
def test_heads_have_colours_of_their_own_and_a_legend_of_them(heads: int) -> None:
    picture = drawing(weights(cross=CROSS.expand(1, 1, heads, 2, 3)))
    strokes = [g.get("stroke") for g in panels(picture)[0].iter(f"{SVG}g") if g.get("stroke")]
    assert len(set(strokes)) == heads
    dots = [dot.get("fill") for dot in picture.iter(f"{SVG}tspan") if dot.text == "●"]
    assert dots == strokes
    assert [text for text in texts(picture) if text.startswith("●")] == [
        f"●head {number}" for number in range(1, heads + 1)
    ]


def test_subwords_are_text() -> None:
    picture = drawing(weights(), src=("▁<b>&amp;", '"\u202e\x07'), tgt=("</svg>",))
    (panel,) = panels(picture)
    shown = ["</svg>", "</s>", "▁<b>&amp;", '"<U+202E><U+0007>', "</s>"]
    assert texts(panel)[1:] == shown
