"""The arithmetic that a Transformer's training needs, counted by hand from the paper's equations.

Only matrix products of real tokens count: no padding, nothing that is computed twice.
"""

from __future__ import annotations

import numpy as np

from nmt.config import TransformerConfig
from nmt.data.folder import PairDataset


def flops_per_token(config: TransformerConfig, vocab_size: int, pairs: PairDataset) -> float:
    """Return the FLOPs of forward and backward pass by source or target token of the pairs.

    A multiplication with an addition is two; the backward pass is twice the forward pass.
    """
    src, tgt = (side.astype(np.float64) + 1 for side in pairs.lengths(np.arange(len(pairs))))
    d, inner = config.d_model, config.d_ff
    feed_forward = 2 * d * inner
    # Queries, keys, values and output are products with (d, d); the two products of attention
    # itself are of every query with every key, d wide.
    encoder = src * (4 * d * d + feed_forward) + 2 * src * src * d
    decoder_self = tgt * (4 * d * d + feed_forward) + 2 * tgt * tgt * d
    decoder_cross = tgt * 2 * d * d + src * 2 * d * d + 2 * tgt * src * d
    multiplications = (
        config.num_encoder_layers * encoder
        + config.num_decoder_layers * (decoder_self + decoder_cross)
        + tgt * d * vocab_size
    )
    return float(3 * 2 * multiplications.sum() / (src.sum() + tgt.sum()))
