"""A picture of attention: what is in it, and where lines begin and end."""

import re
from xml.etree import ElementTree

import pytest
import torch
from svg_picture import SVG, texts, titles
from torch import Tensor

from nmt.models.base import AttentionWeights
from nmt.translate.attention_picture import draw_attention, draw_matrix

pytest.importorskip("matplotlib", reason="needs the extra plot")

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


def groups(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [group for group in picture.iter(f"{SVG}g") if group.get("id", "").startswith(name)]


def lines(panel: ElementTree.Element) -> list[tuple[str, str, float]]:
    """The tokens that each line joins, and its opacity."""
    left: dict[str, float] = {}
    right: dict[str, float] = {}
    for text in panel.iter(f"{SVG}text"):
        style = text.get("style", "")
        if "font-weight" not in style:  # which only titles have
            side = left if "text-anchor: end" in style else right
            side[text.text or ""] = float(text.get("y", ""))

    def nearest(tokens: dict[str, float], y: str) -> str:
        # A text's base line is some points below its middle.
        return min(tokens, key=lambda token: abs(tokens[token] - 4 - float(y)))

    found = []
    for path in panel.iter(f"{SVG}path"):
        (_, begin), (_, end) = re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
        opacity = re.search(r"stroke-opacity: ([\d.]+)", path.get("style", ""))
        weight = float(opacity[1] if opacity else 1)
        found.append((nearest(left, begin), nearest(right, end), weight))
    return found


def test_a_matrix_has_a_cell_for_each_pair_of_tokens_the_darker_the_more_attention() -> None:
    drawn = draw_matrix(CROSS[:1].numpy(), ("▁a", "<b>", "$c$"), ("▁x",))
    picture = ElementTree.fromstring(drawn)
    assert texts(picture) == ["▁a", "<b>", "$c$", "▁x", "Attention"]
    styles = [path.get("style", "") for path in groups(picture, "QuadMesh")[0]]
    reds = [int(re.findall("fill: #(..)", style)[0], 16) for style in styles]
    assert reds[1] < reds[0] < reds[2]  # 0.72, 0.25, 0.03


def test_a_line_joins_two_tokens_and_is_as_opaque_as_its_weight() -> None:
    (panel,) = groups(drawing(weights()), "axes")
    # x is predicted by looking at a and b, the end by looking at the end; 0.03 is below 0.05.
    assert lines(panel) == [("▁x", "▁a", 0.25), ("▁x", "b", 0.72), ("</s>", "</s>", 1.0)]


def test_each_layer_of_each_attention_has_a_panel() -> None:
    picture = drawing(weights(encoder=2, decoder=1, cross=CROSS.expand(3, 1, 1, 2, 3)))
    names = [f"Encoder, layer {n}" for n in (1, 2)] + ["Decoder, layer 1"]
    names += [f"Cross-attention, layer {n}" for n in (1, 2, 3)]
    assert titles(picture) == [*names, "Attention"]
    # Decoder states stand at the token that they predict.
    assert texts(groups(picture, "axes")[2]) == ["Decoder, layer 1", "▁x", "</s>", "<s>", "▁x"]
    height = float(picture.get("height", "").removesuffix("pt"))
    assert max(float(text.get("y", 0)) for text in picture.iter(f"{SVG}text")) < height
