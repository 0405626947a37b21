"""The interface between models, training and search.

Shapes, here and in every model: B sentences, S source length, T target length, W beam width,
N = B * W hypotheses (the W of a sentence are consecutive), D d_model, V target vocabulary, n tokens
of packed sentences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from nmt.config.model_config import AttentionHead
from nmt.data.batches import Batch, Packed
from nmt.models.kernels.linear import linear
from nmt.models.kernels.packed_attention import Recorded


class AttentionWeights(NamedTuple):
    """The attention weights of B pairs, by layer and head.

    The weights of a real token sum to 1. At padding, of either side, they are 0. Without
    self-attention, `encoder` and `decoder` are empty.
    """

    encoder: Tensor  # (layers, B, H, S, S), fp32 or wider
    decoder: Tensor  # (layers, B, H, T, T): 0 from a token to later ones
    cross: Tensor  # (layers, B, H, T, S)


class DecoderState(Protocol):
    """A model's state for N hypotheses of the same length. Search reorders it."""

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Go on with a child of each of these hypotheses, in this order.

        rows: (N',) int64 on the CPU, the parents, of the N hypotheses. Those of a sentence are
            consecutive, and each sentence has the same number.
        sentences: (B',) int64 on the CPU, indices into the B sentences: those that the rows belong
            to, in order.
        """


BARRED = -1e4
"""A bias that makes a token impossible. It fits into fp16."""


class Decoder(Protocol):
    """The interface of a model or an ensemble for search."""

    def begin(self, src: Packed) -> DecoderState:
        """Return the state before the first target token, with a hypothesis for each of B sources.

        `select` may be called before the first step, too.

        src: the sources, each with eos.
        """

    @property
    def vocab_size(self) -> int:
        """V, the target vocabulary's size."""

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states; the rows of the states are concatenated.

        All rows go through the matrix products together, so that batches which began at
        different times are as fast as one.

        states: made by `begin`.
        tokens: (N,) int64 on the CPU, the last token of each hypothesis of all states; bos at
            first.
        Returns (N, F) features for `project`, on the model's device.
        """

    def project(self, features: Tensor) -> Tensor:
        """Return the logits (n, V) of the next tokens of some hypotheses.

        Search projects a few rows at a time, so that their logits stay in a CPU's cache.

        features: (n, F), rows of the result of `step`.
        """


class TranslationModel(nn.Module, ABC):
    """A sequence-to-sequence model and `Decoder`."""

    output_projection: nn.Parameter
    """(V, D). Training fuses it with the loss, so that the logits never all exist at once."""
    output_bias: nn.Parameter | None
    """(V,), added to logits; `BARRED` for tokens that are never produced. Most models have none."""

    def __init__(self) -> None:
        super().__init__()
        self.output_bias = None

    @property
    def is_padding_free(self) -> bool:
        """Whether the model, with its device and type, computes nothing for padding."""
        return False

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The modules that do most of the work, in the order of the forward pass.

        Each kind is compiled once. Compiling the whole model would take longer, and would give all
        gradients at once, too late to sum them over ranks during the backward pass.
        """
        return [self]

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the last states (n, D) of the batch's target tokens, teacher-forced.

        The first num_tokens rows belong to `batch.targets`, and the others are padding. `project`
        returns their logits.
        """

    def forward_with_head(self, batch: Batch, head: AttentionHead) -> tuple[Tensor, Tensor, Tensor]:
        """Return the result of `forward`, and a head's queries (n, K) and keys (m, K).

        Only a `Transformer` can. They are of all n tokens of `batch.tgt_in` and m of `batch.src`.
        """
        raise NotImplementedError

    @abstractmethod
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """Return the attention weights of a forward pass, for inspection.

        The model is in evaluation mode, its weights packed or not. Row t of a target is that of
        the state which has read bos and the t tokens before, and predicts token t, counted from 0.
        """

    def _weights(self, batch: Batch, attentions: Iterable[nn.Module]) -> list[Tensor]:
        """Return the weights of some attentions, if `forward` takes what it is to record."""
        recorded: Recorded = dict.fromkeys(attentions)
        self(batch, recorded)
        return [weights for weights in recorded.values() if weights is not None]

    @abstractmethod
    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        """Return, of one layer, what the decoder looks at in the source: (B, H, T, S).

        The same as in `attention_weights`, for less work and memory.

        batch: B pairs.
        from_top: the layer, counted from the last one, which is 0. A model with fewer layers uses
            its first.
        """

    @abstractmethod
    def begin(self, src: Packed) -> DecoderState:
        """See `Decoder`."""

    @property
    def vocab_size(self) -> int:
        """See `Decoder`."""
        return len(self.output_projection)

    @abstractmethod
    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """See `Decoder`. The features are last states (N, D), as from `forward`."""

    def project(self, features: Tensor) -> Tensor:
        """See `Decoder`."""
        return linear(features, self.output_projection, self.output_bias)
