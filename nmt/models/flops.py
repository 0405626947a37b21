"""The work of a model in multiply-adds of its matrix products, which is nearly all it does.

Only real tokens count, not padding. Attention counts the full square even if a causal mask hides
half of it, because implementations compute it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nmt.config.model_config import (
    ConvolutionalConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
)
from nmt.data.batches import LengthSums


def _transformer(config: TransformerConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width = config.d_model
    both = config.num_heads * sum(config.head_widths)  # HK and HV
    # Queries, keys, values and the output have a matrix each. Cross-attention makes keys and values
    # of source tokens. Scores and weighted means take HK and HV per pair of tokens.
    attention = 2 * width * both
    if config.positions == "relative":  # each query with all relative vectors
        attention += (2 * config.max_relative_distance + 1) * both
    feed_forward = (3 if config.feed_forward == "swiglu" else 2) * width * config.d_ff
    encoder = lengths.src * (attention + feed_forward) + lengths.src_src * both
    memory = lengths.tgt * attention + lengths.tgt_tgt * both
    if config.decoder_memory == "ssru":
        memory = lengths.tgt * 2 * width * width
    decoder = memory + lengths.tgt * (width * both + feed_forward)
    decoder += (lengths.src * width + lengths.src_tgt) * both
    logits = lengths.tgt * width * tgt_vocab_size
    return config.num_encoder_layers * encoder + config.num_decoder_layers * decoder + logits


def _convolutional(config: ConvolutionalConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width, hidden = config.d_model, config.d_hidden
    mapping = width * hidden  # between the widths of embeddings and layers
    convolution = config.kernel_width * hidden * 2 * hidden
    encoder = lengths.src * (config.num_encoder_layers * convolution + 2 * mapping)
    # Attention maps states to queries and back. Scores and weighted sums take D each per pair.
    layer = lengths.tgt * (convolution + 2 * mapping) + lengths.src_tgt * 2 * width
    decoder = config.num_decoder_layers * layer + lengths.tgt * 2 * mapping
    return encoder + decoder + lengths.tgt * width * tgt_vocab_size


def _recurrent(config: RecurrentConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width, hidden = config.d_model, config.d_hidden
    # Each layer's gates are 4 products of its input and its last output. In the encoder each
    # direction has half the width.
    encoder = 4 * hidden * (width + hidden // 2)
    encoder += (config.num_encoder_layers - 1) * 4 * hidden * (hidden + hidden // 2)
    decoder = 4 * hidden * (2 * width + hidden)
    decoder += (config.num_decoder_layers - 1) * 4 * hidden * 2 * hidden
    # A key per source token. A query and an attentional state per target token. A score and a
    # weighted mean per pair.
    keys = queries = width * hidden
    attentional = width * 2 * hidden
    targets = lengths.tgt * (decoder + queries + attentional + width * tgt_vocab_size)
    return lengths.src * (encoder + keys) + targets + lengths.src_tgt * (width + hidden)


MULTIPLY_ADDS: dict[str, Callable[[Any, int, LengthSums], int]] = {
    "transformer": _transformer,
    "conv_seq2seq": _convolutional,
    "rnn_attention": _recurrent,
}
"""Multiply-adds of a forward pass of each architecture, over pairs of these lengths."""


def training_flops(
    architecture: str, config: ModelConfig, tgt_vocab_size: int, lengths: LengthSums
) -> int:
    """Return the floating-point operations of training on pairs of these lengths.

    A multiply-add counts as two, and the backward pass as twice the forward pass, as in Kaplan et
    al. (2020), section 2.1. Do not compare with the Transformer's paper: its section 6.1 multiplies
    training time by what the GPUs can sustain.
    """
    return 6 * MULTIPLY_ADDS[architecture](config, tgt_vocab_size, lengths)
