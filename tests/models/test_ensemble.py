"""An ensemble's probabilities are the mean of those of its members."""

from __future__ import annotations

import torch

from nmt.data.batches import pack_sources
from nmt.model_config import TransformerConfig
from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.models.registry import build_model

SOURCES = [[5, 9, 13, 4], [7]]


def model(seed: int, d_model: int) -> TranslationModel:
    torch.manual_seed(seed)
    config = TransformerConfig(
        num_encoder_layers=1, num_decoder_layers=2, d_model=d_model, d_ff=32, num_heads=2
    )
    return build_model("transformer", config, 14, 14).eval()


@torch.inference_mode()
def test_probabilities_are_the_mean_of_the_members() -> None:
    members = [model(1, 16), model(2, 16), model(3, 32)]  # of other sizes, too
    ensemble = Ensemble(members)
    together = ensemble.begin(pack_sources(SOURCES))
    alone = [member.begin(pack_sources(SOURCES)) for member in members]
    steps = [[2, 2], [4, 5], [6, 7, 8, 9]]
    for number, tokens in enumerate(map(torch.tensor, steps)):
        found = ensemble.project(ensemble.step([together], tokens)).softmax(dim=-1)
        expected = [
            member.project(member.step([state], tokens)).softmax(dim=-1)
            for member, state in zip(members, alone, strict=True)
        ]
        torch.testing.assert_close(found, torch.stack(expected).mean(dim=0))
        if number == 1:  # the second sentence first, by two hypotheses each
            for state in (together, *alone):
                state.select(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0]))


@torch.inference_mode()
def test_states_that_began_separately_step_together() -> None:
    ensemble = Ensemble([model(1, 16), model(2, 16)])
    both = ensemble.begin(pack_sources(SOURCES))
    apart = [ensemble.begin(pack_sources([source])) for source in SOURCES]
    tokens = torch.tensor([2, 2])
    torch.testing.assert_close(ensemble.step(apart, tokens), ensemble.step([both], tokens))


@torch.inference_mode()
def test_a_member_with_nan_gives_nan() -> None:
    members = [model(1, 16), model(2, 16)]
    members[1].output_projection[5] = torch.nan
    ensemble = Ensemble(members)
    features = ensemble.step([ensemble.begin(pack_sources(SOURCES))], torch.tensor([2, 2]))
    assert ensemble.project(features).isnan().any(dim=1).all()
