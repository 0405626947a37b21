"""The work of a model: multiply-adds of its matrix products, which is nearly all that it does.

Only real tokens count: work on padding is waste, not progress. Attention counts whole squares, also
where a causal mask hides half of them, as implementations compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.data.batches import LengthSums, pack_sources
from nmt.data.vocabulary import BOS_ID, UNK_ID
from nmt.model_config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from nmt.models.base import TranslationModel


def _transformer(config: TransformerConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width = config.d_model
    keys, values = (config.num_heads * head_width for head_width in config.head_widths)
    # Queries, keys, values and the output are a matrix each; the decoder's second attention makes
    # keys and values of source tokens. Scores and weighted means are HK and HV a pair of tokens.
    attention = 2 * width * (keys + values)
    if config.positions == "relative":  # each query meets all vectors of keys and of values
        attention += (2 * config.max_relative_distance + 1) * (keys + values)
    feed_forward = (3 if config.feed_forward == "swiglu" else 2) * width * config.d_ff
    src_pairs = _pairs(config, lengths.src, lengths.src_src, seen=3)
    tgt_pairs = _pairs(config, lengths.tgt, lengths.tgt_tgt, seen=2)
    encoder = lengths.src * (attention + feed_forward) + src_pairs * (keys + values)
    decoder = (
        lengths.tgt * (attention + width * (keys + values) + feed_forward)
        + lengths.src * width * (keys + values)
        + (tgt_pairs + lengths.src_tgt) * (keys + values)
    )
    logits = lengths.tgt * width * tgt_vocab_size
    return config.num_encoder_layers * encoder + config.num_decoder_layers * decoder + logits


def _pairs(config: TransformerConfig, tokens: int, squares: int, *, seen: int) -> int:
    """Return the pairs of query and key that a self-attention computes.

    In blocks (see `local_attention`) they are `seen` windows a token, where that is less than the
    squares: exactly so if no sentence is longer than that or none is shorter, and else an upper
    bound.
    """
    window = config.attention_window
    return min(squares, seen * window * tokens) if window else squares


def _convolutional(config: ConvolutionalConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width, hidden = config.d_model, config.d_hidden
    mapping = width * hidden  # between the widths of embeddings and of layers, either way
    convolution = config.kernel_width * hidden * 2 * hidden
    encoder = lengths.src * (config.num_encoder_layers * convolution + 2 * mapping)
    # An attention maps states to queries and back; scores and weighted sums are D each a pair.
    layer = lengths.tgt * (convolution + 2 * mapping) + lengths.src_tgt * 2 * width
    decoder = config.num_decoder_layers * layer + lengths.tgt * 2 * mapping
    return encoder + decoder + lengths.tgt * width * tgt_vocab_size


def _recurrent(config: RecurrentConfig, tgt_vocab_size: int, lengths: LengthSums) -> int:
    width, hidden = config.d_model, config.d_hidden
    # Each layer's gates are 4 products of what it reads and of its own last output, of which the
    # two directions of the encoder have a half each.
    encoder = 4 * hidden * (width + hidden // 2)
    encoder += (config.num_encoder_layers - 1) * 4 * hidden * (hidden + hidden // 2)
    decoder = 4 * hidden * (2 * width + hidden)
    decoder += (config.num_decoder_layers - 1) * 4 * hidden * 2 * hidden
    # A key for each source token; for each target token a query, and the state that attention
    # makes of what it finds and of the layers' output. A score and a weighted mean for each pair.
    keys = queries = width * hidden
    attentional = width * 2 * hidden
    return (
        lengths.src * (encoder + keys)
        + lengths.tgt * (decoder + queries + attentional + width * tgt_vocab_size)
        + lengths.src_tgt * (width + hidden)
    )


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

    A multiply-add is two, and the backward pass, which takes the gradient of both factors of every
    product, is twice the forward pass: the convention of Kaplan et al. (2020), section 2.1. The
    Transformer's paper estimates otherwise (section 6.1), by what its GPUs could have done in the
    time that they took, so its figures are not to be compared with these.
    """
    return 6 * MULTIPLY_ADDS[architecture](config, tgt_vocab_size, lengths)


@torch.inference_mode()
def decoding_multiply_adds(
    model: TranslationModel, src_tokens: int, position: int
) -> tuple[int, int]:
    """Return the multiply-adds of translating one sentence, greedily: of its source, and of a step.

    They are counted while the model runs, so that no architecture needs a formula.

    Args:
        model: in evaluation mode; without values (see `shapes_only`) it runs without work.
        src_tokens: S, tokens of the source with its eos.
        position: of the step that is counted, logits included; the first one, which reads bos, is
            1.
    """
    device = model.output_projection.device
    src = pack_sources([[UNK_ID] * (src_tokens - 1)]).to(device)
    token = torch.tensor([BOS_ID])
    with FlopCounterMode(display=False) as encoding:
        state = model.begin(src)
    for _ in range(position - 1):
        model.step([state], token)
    with FlopCounterMode(display=False) as step:
        model.project(model.step([state], token))
    return encoding.get_total_flops() // 2, step.get_total_flops() // 2
