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
    """What a model remembers of N hypotheses, which are equally long. Search reorders it."""

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order; a row that stays in its place costs nothing.

        Args:
            rows: (N',) int64 on the CPU: indices into the N hypotheses; those of a sentence are
                neighbours, and each sentence has as many.
            sentences: (B',) int64 on the CPU: the sentences that the rows belong to, in their
                order; indices into the B.
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
        """Return the state before the first target token: a hypothesis for each sentence, B."""

    @abstractmethod
    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states, the rows of one behind those of the other.

        All rows go through the model's products together, so that batches which began at
        different times are as fast as one.

        Args:
            states: made by this model; one that is fresh is given bos.
            tokens: (N,) int64 on the CPU, N over all states: each hypothesis's next token.

        Returns:
            The logits of the tokens that follow (N, V), on the model's device.
        """
