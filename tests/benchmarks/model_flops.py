"""The arithmetic that a Transformer's training needs by token of a text."""

from __future__ import annotations

import numpy as np

from nmt.data.batches import LengthSums
from nmt.data.folder import PairDataset
from nmt.model_config import TransformerConfig
from nmt.models.flops import training_flops


def flops_per_token(config: TransformerConfig, vocab_size: int, pairs: PairDataset) -> float:
    """Return the FLOPs of forward and backward pass by source or target token of the pairs."""
    sums = LengthSums.of(*pairs.lengths(np.arange(len(pairs))))
    return training_flops("transformer", config, vocab_size, sums) / (sums.src + sums.tgt)
