"""Ensembles: models with one vocabulary, whose probabilities are averaged with equal weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from nmt.data.batches import Batch, Packed
from nmt.errors import UsageError
from nmt.models.base import DecoderState, OwnProjections, TranslationModel
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
    """Members of any architecture. A `Decoder`."""

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
        """V, the target vocabulary's size."""
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
        """Return the logarithms of summed probabilities (n, V) as logits."""
        parts = zip(self.members, self._split(features), strict=True)
        return _sum([member.project(part) for member, part in parts])

    def own_projections(self, tokens: Tensor) -> OwnProjections:
        """See `Decoder`."""
        return [own for member in self.members for own in member.own_projections(tokens)]

    def project_onto(self, projections: OwnProjections, features: Tensor) -> Tensor:
        """Return logits of each sentence's own tokens (N, U), over which each member normalises."""
        parts = zip(self.members, projections, self._split(features), strict=True)
        return _sum([member.project_onto([own], part) for member, own, part in parts])

    def _split(self, features: Tensor) -> Iterator[Tensor]:
        """Yield each member's part of the features."""
        widths = [member.output_projection.shape[1] for member in self.members]
        parts = torch.split(features, widths, dim=1)
        return (part if part.is_cuda else part.contiguous() for part in parts)


def _sum(logits: Sequence[Tensor]) -> Tensor:
    """Return the logarithms of the summed probabilities of logits (n, V)."""
    return reduce(torch.logaddexp, (of_member.float().log_softmax(dim=-1) for of_member in logits))


def check_members(paths: Sequence[Path], cards: Sequence[ModelCard]) -> None:
    """Refuse models that cannot form an ensemble.

    Raises:
        UsageError: if languages or vocabularies differ from the first one's, or only one was
            trained to read terms.
    """
    for path, card in zip(paths[1:], cards[1:], strict=True):
        differences = [
            difference
            for difference in cards[0].differences(card)
            if any(word in difference for word in ("vocabulary", "lang", "terms"))
        ]
        if differences:
            raise UsageError(
                f"{path} and {paths[0]} differ: {'; '.join(differences)}; models of an ensemble "
                "must share their languages and vocabularies"
            )
