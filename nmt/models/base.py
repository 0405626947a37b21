"""What training and search may ask of any model, and nothing else.

Shapes, here and in every model: B sentences, S source length, T target length, W beam width,
N = B * W hypotheses (the W of a sentence are neighbours), D d_model, V target vocabulary, n tokens
of packed sentences.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from nmt.data.batches import Batch, Packed
from nmt.models.kernels.linear import linear


@dataclass(frozen=True)
class Memory:
    """The encoder's output with its mask."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S) bool, True = a real token


@dataclass(frozen=True)
class AttentionWeights:
    """By which weights each token of B pairs attends to others, layer by layer and head by head.

    The weights of a real token sum to 1; at padding, of either side, they are 0. An architecture
    without self-attention has no such layers: then the first dimension is 0.
    """

    encoder: Tensor  # (layers, B, H, S, S), fp32 or wider
    decoder: Tensor  # (layers, B, H, T, T): 0 from a token to those behind it
    cross: Tensor  # (layers, B, H, T, S)


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


Projection = Callable[[Tensor, Tensor], Tensor]
"""Features (N, F) to logits (N, U) of U tokens, given which of them each of the B sentences is not
to have: (B, U) bool. Those get -inf."""


class Decoder(Protocol):
    """What search asks of a model, or of several that translate together."""

    def begin(self, src: Packed) -> DecoderState:
        """Return the state before the first target token: a hypothesis for each of B sources.

        It may be told to `select` before its first step, too.

        Args:
            src: the sources, each closed by eos.
        """

    @property
    def vocab_size(self) -> int:
        """V, tokens that may follow."""

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states, the rows of one behind those of the other.

        All rows go through the model's products together, so that batches which began at
        different times are as fast as one.

        Args:
            states: made by `begin`; one that is fresh is given bos.
            tokens: (N,) int64 on the CPU, N over all states: each hypothesis's next token.

        Returns:
            (N, F) for each hypothesis what `project` makes logits of, on the model's device.
        """

    def project(self, features: Tensor) -> Tensor:
        """Return the logits (n, V) of what follows some of the hypotheses.

        Some at a time, so that what is done to logits finds them in a CPU's cache.

        Args:
            features: (n, F) rows of what `step` has returned.
        """

    def projection_onto(self, tokens: Tensor) -> Projection:
        """Return what makes, like `project`, logits (N, U) of some tokens only.

        The tokens that a sentence is not to have take no part in its hypotheses' probabilities.

        Args:
            tokens: (U,) int64 on the CPU.
        """


class TranslationModel(nn.Module, ABC):
    """A sequence-to-sequence model, whose last layer is a projection to logits without bias.

    It is a `Decoder`, too.
    """

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
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """Return what the pass that `forward` makes over a batch attends to; for looking at.

        The model is in evaluation mode, its weights packed or not. Row t of a target is that of
        the state which has read bos and the t tokens before, and predicts token t, counted from 0.
        """

    @abstractmethod
    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        """Return, of one layer, what the decoder looks at in the source: (B, H, T, S).

        The same as in `attention_weights`, for less work and memory.

        Args:
            batch: B pairs.
            from_top: the layer, counted from the last one, which is 0; a model with fewer takes
                its first.
        """

    @abstractmethod
    def encode(self, src: Packed) -> Memory:
        """Encode B sources, each closed by eos."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target token: a hypothesis for each sentence, B."""

    def begin(self, src: Packed) -> DecoderState:
        """See `Decoder`."""
        return self.start(self.encode(src))

    @property
    def vocab_size(self) -> int:
        """See `Decoder`."""
        return len(self.output_projection)

    @abstractmethod
    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """See `Decoder`; what it returns are last states (N, D), as `forward`'s."""

    def project(self, features: Tensor) -> Tensor:
        """See `Decoder`."""
        return linear(features, self.output_projection)

    def projection_onto(self, tokens: Tensor) -> Projection:
        """See `Decoder`."""
        rows = self.output_projection.detach()[tokens.to(self.output_projection.device)]  # (U, D)

        def project(features: Tensor, excluded: Tensor) -> Tensor:
            logits = linear(features, rows)  # (N, U)
            by_sentence = logits.view(len(excluded), -1, len(rows))  # (B, W, U)
            by_sentence.masked_fill_(excluded[:, None], -math.inf)
            return logits

        return project
