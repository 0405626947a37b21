"""Several models of one vocabulary that translate together.

What follows has the mean of the probabilities that the models give it, each as much as the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from nmt.data.batches import Batch, Packed
from nmt.errors import UsageError
from nmt.models.contract import DecoderState, Projection, TranslationModel
from nmt.models.model_file import ModelCard


class EnsembleState:
    """A state of each member (see `DecoderState`)."""

    def __init__(self, members: list[DecoderState]) -> None:
        self.members = members

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order."""
        for member in self.members:
            member.select(rows, sentences)


class Ensemble:
    """Members of any architecture; fulfils `Decoder`."""

    def __init__(self, members: Sequence[TranslationModel]) -> None:
        self.members = members

    def forward(self, batch: Batch) -> Tensor:
        """Return the members' last states, teacher-forced, side by side (n, F): see `project`."""
        return torch.cat([member(batch) for member in self.members], dim=1)

    def begin(self, src: Packed) -> EnsembleState:
        """Return the members' states before the first target token."""
        return EnsembleState([member.begin(src) for member in self.members])

    @property
    def vocab_size(self) -> int:
        """V, tokens that may follow."""
        return self.members[0].vocab_size

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses; return the members' last states side by side (N, F)."""
        own = cast(Sequence[EnsembleState], states)
        return torch.cat(
            [
                member.step([state.members[number] for state in own], tokens)
                for number, member in enumerate(self.members)
            ],
            dim=1,
        )

    def project(self, features: Tensor) -> Tensor:
        """Return the logarithms of mean probabilities (n, V) as logits."""
        return self._mean([member.project for member in self.members], features)

    def projection_onto(self, tokens: Tensor) -> Projection:
        """Return what makes such logits (n, U) of some tokens alone."""
        return partial(self._mean, [member.projection_onto(tokens) for member in self.members])

    def _mean(self, projections: Sequence[Projection], features: Tensor) -> Tensor:
        widths = [member.output_projection.shape[1] for member in self.members]
        parts = torch.split(features, widths, dim=1)
        log_probs = [
            project(part.contiguous()).float().log_softmax(dim=-1)
            for project, part in zip(projections, parts, strict=True)
        ]
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(self.members))


def check_members(paths: Sequence[Path], cards: Sequence[ModelCard]) -> None:
    """Refuse models that do not belong together.

    Raises:
        UsageError: naming what differs from the first one's.
    """
    for path, card in zip(paths[1:], cards[1:], strict=True):
        differences = [
            difference
            for difference in cards[0].differences(card)
            if "vocabulary" in difference or "lang" in difference
        ]
        if differences:
            raise UsageError(
                f"{path} and {paths[0]} differ: {'; '.join(differences)}; models of an ensemble "
                "must share their languages and vocabularies"
            )
