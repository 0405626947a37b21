"""Ensembles: models with one vocabulary, whose probabilities are averaged with equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from nmt.data.batches import Batch, Packed
from nmt.errors import UsageError
from nmt.models.base import DecoderState, TranslationModel
from nmt.models.model_file import ModelCard


class EnsembleState:
    """A state of each member (see `DecoderState`)."""

    def __init__(self, members: list[DecoderState]) -> None:
        self.members = members

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        for member in self.members:
            member.select(rows, sentences)


class Ensemble:
    """Members of any architecture. A `Decoder`."""

    def __init__(self, members: Sequence[TranslationModel]) -> None:
        self.members = members

    def forward(self, batch: Batch) -> Tensor:
        """Return the members' last states, teacher-forced, side by side (n, F): see `project`."""
        return torch.cat([member(batch) for member in self.members], dim=1)

    def begin(self, src: Packed) -> EnsembleState:
        return EnsembleState([member.begin(src) for member in self.members])

    @property
    def vocab_size(self) -> int:
        return self.members[0].vocab_size

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses; return the members' last states side by side (N, F)."""
        members = (state.members for state in cast(Sequence[EnsembleState], states))
        pairs = zip(self.members, zip(*members, strict=True), strict=True)
        return torch.cat([member.step(own, tokens) for member, own in pairs], dim=1)

    def project(self, features: Tensor) -> Tensor:
        """Return the logarithms of summed probabilities (n, V) as logits."""
        widths = [member.output_projection.shape[1] for member in self.members]
        parts = zip(self.members, torch.split(features, widths, dim=1), strict=True)
        logits = (
            member.project(part if part.is_cuda else part.contiguous()) for member, part in parts
        )
        return reduce(torch.logaddexp, (own.float().log_softmax(dim=-1) for own in logits))


def check_members(paths: Sequence[Path], cards: Sequence[ModelCard]) -> None:
    """Refuse models of other languages or vocabularies than the first one's (UsageError)."""
    for path, card in zip(paths[1:], cards[1:], strict=True):
        differences = [
            difference
            for difference in cards[0].differences(card)
            if any(word in difference for word in ("vocabulary", "lang", "annotations"))
        ]
        if differences:
            raise UsageError(
                f"{path} and {paths[0]} differ: {'; '.join(differences)}; models of an ensemble "
                "must share their languages and vocabularies"
            )
