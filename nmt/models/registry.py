"""Architectures and presets by their names, and the one way to build a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nmt.config_values import Value
from nmt.errors import UsageError, did_you_mean
from nmt.model_config import ModelConfig
from nmt.models.contract import TranslationModel
from nmt.models.convolutional import ConvolutionalModel
from nmt.models.presets import PRESETS, Preset
from nmt.models.recurrent import RecurrentModel
from nmt.models.shapes_only import shapes_only
from nmt.models.transformer import Transformer

ARCHITECTURES: dict[str, Callable[[Any, int, int], TranslationModel]] = {
    "transformer": Transformer,
    "conv_seq2seq": ConvolutionalModel,
    "rnn_attention": RecurrentModel,
}
"""How each is built, from its configuration and the sizes of its vocabularies."""


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        UsageError: naming the nearest preset.
    """
    if name not in PRESETS:
        raise UsageError(f"unknown model {name!r}{did_you_mean(name, PRESETS)}")
    return PRESETS[name]


def preset_values(name: str) -> dict[str, Value]:
    """Return all that a preset and its ancestors set."""
    preset = find_preset(name)
    inherited = preset_values(preset.parent) if preset.parent else {}
    return inherited | dict(preset.changes)


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
