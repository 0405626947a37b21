"""Architectures by their names, and the one way to build a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nmt.model_config import ModelConfig
from nmt.models.contract import TranslationModel
from nmt.models.convolutional import ConvolutionalModel
from nmt.models.recurrent import RecurrentModel
from nmt.models.shapes_only import shapes_only
from nmt.models.transformer import Transformer

ARCHITECTURES: dict[str, Callable[[Any, int, int], TranslationModel]] = {
    "transformer": Transformer,
    "conv_seq2seq": ConvolutionalModel,
    "rnn_attention": RecurrentModel,
}
"""How each is built, from its configuration and the sizes of its vocabularies."""


def build_model(
    architecture: str, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> TranslationModel:
    """Build a model with fresh weights, on the current default device."""
    return ARCHITECTURES[architecture](config, src_vocab_size, tgt_vocab_size)


def count_parameters(
    architecture: str, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> int:
    """Count a model's parameters, tied ones once, without allocating them."""
    with shapes_only():
        model = build_model(architecture, config, src_vocab_size, tgt_vocab_size)
    return sum(parameter.numel() for parameter in model.parameters())
