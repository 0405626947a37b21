"""Parameters by part, against counting by hand."""

from __future__ import annotations

import pytest
import torch
from tiny_models import TINY, tiny
from torch import nn

from nmt.model_config import TransformerConfig
from nmt.models.parameters import parameter_parts
from nmt.models.registry import build_model


def test_the_base_model_by_hand() -> None:
    # Attention is 4 matrices of 512 x 512, self-attention's and the other's alike; feed-forward
    # 512 x 2,048 twice with both biases; a norm has a gain and a bias.
    square, norm = 512 * 512, 2 * 512
    feed_forward = 2 * 512 * 2048 + 2048 + 512
    with torch.device("meta"):
        model = build_model("transformer", TransformerConfig(), 37_000, 37_000)
    assert parameter_parts(model) == {
        "output_projection = tgt_embedding.weight = src_embedding.weight, tied": {
            "output_projection": 37_000 * 512
        },
        "encoder": {
            "attention": 6 * 4 * square,
            "norms": 6 * 2 * norm,
            "feed_forward": 6 * feed_forward,
        },
        "decoder": {
            "attention": 6 * 4 * square,
            "norms": 6 * 3 * norm,
            "cross_attention": 6 * 4 * square,
            "feed_forward": 6 * feed_forward,
        },
    }


def test_what_is_not_tied_is_a_part_of_its_own() -> None:
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, tie_embeddings="decoder")
    parts = parameter_parts(build_model("transformer", config, 20, 30))
    assert parts["src_embedding"] == {"weight": 20 * 8}
    assert parts["output_projection = tgt_embedding.weight, tied"] == {"output_projection": 30 * 8}


def test_lists_within_a_part_are_passed_through() -> None:
    encoder = nn.ModuleDict(
        {"layers": nn.ModuleList(nn.ModuleDict({"gates": nn.Linear(2, 3)}) for _ in range(4))}
    )
    model = nn.ModuleDict({"encoder": encoder, "bridge": nn.Linear(3, 2, bias=False)})
    assert parameter_parts(model) == {
        "encoder": {"gates": 4 * (2 * 3 + 3)},
        "bridge": {"weight": 6},
    }


@pytest.mark.parametrize("kind", TINY)
@pytest.mark.parametrize("tie_embeddings", ["none", "decoder", "all"])
def test_parts_add_up_to_the_model(kind: str, tie_embeddings: str) -> None:
    model = tiny(kind, tie_embeddings)
    counts = [count for kinds in parameter_parts(model).values() for count in kinds.values()]
    assert sum(counts) == sum(parameter.numel() for parameter in model.parameters())
