"""The work of a model: multiply-adds of its matrix products, which is nearly all that it does.

Only real tokens count: work on padding is waste, not progress. Attention counts whole squares, also
where a causal mask hides half of them, as implementations compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nmt.data.batches import LengthSums
from nmt.model_config import ModelConfig, TransformerConfig


def _transformer(config: TransformerConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width, inner = config.d_model, config.d_ff
    # Queries, keys, values and the output are a square matrix each; the decoder's second attention
    # makes keys and values of source tokens. Scores and weighted means are D each a pair of tokens.
    feed_forward = 2 * width * inner
    encoder = lengths.src * (4 * width**2 + feed_forward) + lengths.src_src * 2 * width
    decoder = (
        lengths.tgt * (6 * width**2 + feed_forward)
        + lengths.src * 2 * width**2
        + (lengths.tgt_tgt + lengths.src_tgt) * 2 * width
    )
    logits = lengths.tgt * width * tgt_vocab_size
    return config.num_encoder_layers * encoder + config.num_decoder_layers * decoder + logits


MULTIPLY_ADDS: dict[str, Callable[[Any, int, LengthSums], int]] = {"transformer": _transformer}
"""Multiply-adds of a forward pass of each architecture, over pairs of these lengths."""


def training_flops(
    architecture: str, config: ModelConfig, tgt_vocab_size: int, lengths: LengthSums
) -> int:
    """Return the floating-point operations of training on pairs of these lengths.

    A multiply-add is two, and the backward pass, which takes the gradient of both factors of every
    product, is twice the forward pass: the convention of Kaplan et al. (2020), section 2.1. The
    Transformer's paper estimates otherwise (section 6.1), by what its GPUs could have done in the
    time that they took, so its figures are not to be compared with these.
    """
    return 6 * MULTIPLY_ADDS[architecture](config, tgt_vocab_size, lengths)
