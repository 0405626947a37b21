"""A model whose tokens are barred where it computes them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.data.batches import Packed, pack_sources
from nmt.data.vocabulary import BOS_ID
from nmt.models.base import DecoderState, TranslationModel
from nmt.search.engine import Source


class Lending:
    """A model some of whose tokens are impossible: they lend their probability to the others."""

    def __init__(self, model: TranslationModel, barred_ids: Sequence[int]) -> None:
        self.model = model
        self.barred_ids = list(barred_ids)

    def begin(self, src: Packed) -> DecoderState:
        return self.model.begin(src)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        return self.model.step(states, tokens)

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    def project(self, features: Tensor) -> Tensor:
        logits = self.model.project(features)
        logits[:, self.barred_ids] = -torch.inf
        return logits

    @torch.inference_mode()
    def log_prob(self, source: Source, tokens: Sequence[int]) -> float:
        """Of what a translation begins with, one token after the other."""
        state, total = self.begin(pack_sources([source.ids])), 0.0
        for last, token in zip((BOS_ID, *tokens), tokens, strict=False):
            logits = self.project(self.step([state], torch.tensor([last])))[0]
            total += float(logits.double().log_softmax(dim=0)[token])
        return total
