"""Computes soft alignments from a model's cross-attention.

Averaged over heads, the decoder's penultimate layer agrees best with human alignments. A target
token's source is read off the state that predicts it (Garg et al. 2019, "Jointly Learning to Align
and Translate with Transformer Models", the layer average baseline). In a lower layer, the state
that reads the token may be better (Chen et al. 2020, "Accurate Word Alignment Induction from Neural
Machine Translation"). The models are not trained to align, so expect errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.data.batches import Batch, collate
from nmt.data.shards import TokenRows
from nmt.models.base import AttentionWeights, TranslationModel
from nmt.search.engine import Ids
from nmt.search.forced import Pair, forced
from nmt.translate.alignment import Floats

_FROM_TOP = 1  # the penultimate layer aligns


class Aligner:
    """Computes the attention of a model's decoder."""

    def __init__(self, model: TranslationModel, device: torch.device) -> None:
        """Take a model in evaluation mode, on the device."""
        self.model = model
        self.device = device

    def attention(self, pairs: Sequence[Pair]) -> list[Floats | None]:
        """Return (T, S) for each pair of source and target ids without eos; see `between_tokens`.

        None if a pair does not fit into memory.
        """
        return forced(pairs, self._attention, self.device)

    @torch.inference_mode()
    def weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Return all attention weights of a pair of source and target ids without eos."""
        src, tgt = (TokenRows.of([ids], token_bytes=4) for ids in (source, target))
        return self.model.attention_weights(collate(src, tgt).to(self.device))

    @torch.inference_mode()
    def _attention(self, batch: Batch) -> list[Floats]:
        layer = self.model.cross_attention(batch, _FROM_TOP)  # (B, H, T, S)
        mean = layer.mean(dim=1).cpu()  # (B, T, S)
        lengths = ((side.starts.diff() - 1).tolist() for side in (batch.src, batch.tgt_in))
        return [
            between_tokens(rows, source, target)
            for rows, source, target in zip(mean, *lengths, strict=True)
        ]


def between_tokens(attention: Tensor, source: int, target: int) -> Floats:
    """Return the attention of target tokens to source tokens, (target, source).

    eos is left out on both sides. Models attend to the source's eos when they need no particular
    word, so rows do not sum to 1.

    Args:
        attention: (T, S), padded. Rows are the states that predict the target tokens and eos,
            columns the source tokens and eos.
        source, target: numbers of tokens.
    """
    return attention[:target, :source].numpy().copy()  # so that the batch is freed
