"""An ensemble's probabilities are the mean of those of its members."""

import torch
from tiny_models import SOURCES, tiny

from nmt.data.batches import pack_sources
from nmt.models.base import DecoderState
from nmt.models.ensemble import Ensemble

KINDS = ["transformer", "conv_seq2seq", "rnn_attention"]  # of different sizes, too


@torch.inference_mode()
def test_probabilities_are_the_mean_of_the_members() -> None:
    members = [tiny(kind) for kind in KINDS]
    ensemble = Ensemble(members)
    parts = [pack_sources(SOURCES[:2]), pack_sources(SOURCES[2:])]
    together: list[DecoderState] = [ensemble.begin(part) for part in parts]
    alone = [[member.begin(part) for part in parts] for member in members]
    for tokens in ([2, 2, 2], [4, 5, 10], [6, 7, 8, 9, 11]):
        step = torch.tensor(tokens)
        found = ensemble.project(ensemble.step(together, step)).softmax(dim=-1)
        expected = [
            member.project(member.step(states, step)).softmax(dim=-1).float()
            for member, states in zip(members, alone, strict=True)
        ]
        torch.testing.assert_close(found, torch.stack(expected).mean(dim=0))
        if tokens == [4, 5, 10]:  # the second sentence first, by two hypotheses each
            for states in (together, *alone):
                states[0].select(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0]))


@torch.inference_mode()
def test_a_member_with_nan_gives_nan() -> None:
    members = [tiny("transformer"), tiny("transformer", seed=2)]
    members[1].output_projection[5] = torch.nan
    ensemble = Ensemble(members)
    features = ensemble.step([ensemble.begin(pack_sources(SOURCES))], torch.tensor([2, 2, 2]))
    assert ensemble.project(features).isnan().any(dim=1).all()
