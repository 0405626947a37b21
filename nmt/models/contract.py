"""What training and search may ask of any model, and nothing else.

Shapes, here and in every model: B sentences, S source length, T target length, W beam width,
N = B * W hypotheses (the W of a sentence are neighbours), D d_model, V target vocabulary, n tokens
of packed sentences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from nmt.data.batches import Batch, Packed


@dataclass(frozen=True)
class Memory:
    """The encoder's output with its mask."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S) bool, True = a real token


class DecoderState(Protocol):
    """What a model remembers of N hypotheses. Search steps and reorders it, and sees no more."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (N,), bos at first, and return the next token's logits (N, V)."""

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order.

        Args:
            rows: (N',) int64 indices into the N hypotheses; those of a sentence are neighbours.
            sentences: (B',) int64 ascending indices of the sentences that the rows belong to.
        """


class TranslationModel(nn.Module, ABC):
    """A sequence-to-sequence model, whose last layer is a projection to logits without bias."""

    output_projection: nn.Parameter
    """(V, D). Training applies it together with the loss, so that all logits never exist."""

    @property
    def is_padding_free(self) -> bool:
        """Whether all work goes by the number of tokens, as the model is now, whatever sentences
        they make up: then batches of one shape waste nothing."""
        return False

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The parts that do most of the work, in the order in which forward goes through them.

        Each is compiled for itself, and those of one kind once: a model that is compiled as a whole
        takes longer, and gets all gradients at once, too late to sum them over ranks beside the
        backward pass.
        """
        return [self]

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the last states (n, D) of the batch's target tokens, teacher-forced.

        The first num_tokens rows belong to `batch.targets`, and their product with the output
        projection's transpose are the logits; the others are padding.
        """

    @abstractmethod
    def encode(self, src: Packed) -> Memory:
        """Encode B sources, each closed by eos."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target token of the memory's B sentences.

        How many hypotheses W a sentence has is told by the N = B * W tokens of the first step.
        """
