"""Models without values have the shapes that models have, and cost nothing."""

from __future__ import annotations

import torch

from nmt.model_config import TransformerConfig
from nmt.models.registry import build_model, shapes_only


def test_shapes_and_types_are_those_of_a_model_and_no_number_is_drawn() -> None:
    config = TransformerConfig(d_model=16, d_ff=32, num_heads=2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with shapes_only():
        empty = dict(build_model("transformer", config, 20, 30).named_parameters())
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.is_meta for parameter in empty.values())
    model = dict(build_model("transformer", config, 20, 30).named_parameters())
    assert {n: (p.shape, p.dtype) for n, p in empty.items()} == {
        n: (p.shape, p.dtype) for n, p in model.items()
    }
