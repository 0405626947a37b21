"""Architectures and presets: two dictionaries that can be read, and the one way to build a model.

A preset is its parent plus what differs, over the values of the model and of its training. Once
named it is frozen: published results stand on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.config_values import Value
from nmt.errors import UsageError, did_you_mean
from nmt.model_config import ModelConfig
from nmt.models.contract import TranslationModel
from nmt.models.shapes_only import shapes_only
from nmt.models.transformer import Transformer

ARCHITECTURES: dict[str, Callable[[Any, int, int], TranslationModel]] = {"transformer": Transformer}
"""How each is built, from its configuration and the sizes of its vocabularies."""


@dataclass(frozen=True)
class Preset:
    """A named recipe: a parent's values (the class defaults without one) plus what differs."""

    architecture: str
    parent: str | None
    changes: Mapping[str, Value]
    summary: str


PRESETS: dict[str, Preset] = {
    "transformer_base": Preset(
        "transformer",
        None,
        {},
        "the paper's base model",
    ),
    "transformer_big": Preset(
        "transformer",
        "transformer_base",
        {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "max_updates": 300_000}
        | {"save_every": 600, "keep_last": 20},
        "the paper's big model (En-De; P_drop 0.1 for En-Fr)",
    ),
    "transformer_small": Preset(
        "transformer",
        "transformer_base",
        {"num_encoder_layers": 3, "num_decoder_layers": 3, "d_model": 256, "d_ff": 1024}
        | {"num_heads": 4, "batch_tokens": 4_096},
        "for some ten thousand to a million pairs, or a CPU",
    ),
    "transformer_tiny": Preset(
        "transformer",
        "transformer_small",
        {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 128, "d_ff": 512},
        "for tests and toy languages",
    ),
}


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
