"""Presets are frozen, and their sizes are the paper's by hand arithmetic."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nmt.config import TrainingConfig, resolve_recipe
from nmt.config_values import Value
from nmt.errors import UsageError
from nmt.model_config import MODEL_CONFIGS, TransformerConfig
from nmt.models.registry import (
    ARCHITECTURES,
    PRESETS,
    build_model,
    count_parameters,
    find_preset,
    preset_values,
)

VOCAB = 37_000  # the paper's joint vocabulary of English and German

FROZEN: dict[str, dict[str, Value]] = {
    "transformer_base": {},
    "transformer_big": {
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,
        "dropout": 0.3,
        "max_updates": 300_000,
        "save_every": 600,
        "keep_last": 20,
    },
    "transformer_small": {
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "d_model": 256,
        "d_ff": 1024,
        "num_heads": 4,
        "batch_tokens": 4_096,
    },
    "transformer_tiny": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 128,
        "d_ff": 512,
        "num_heads": 4,
        "batch_tokens": 4_096,
    },
}
"""What each preset resolves to, where that is not the class default. Published results stand on it:
a preset here is never changed; another one gets another name."""

PAPER: dict[str, Value] = {
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "d_model": 512,
    "d_ff": 2048,
    "num_heads": 8,
    "dropout": 0.1,
    "tie_embeddings": "all",
    "batch_tokens": 25_000,
    "max_updates": 100_000,
    "label_smoothing": 0.1,
    "schedule": "inverse_sqrt",
    "learning_rate": 0.0,  # the paper's: (d_model * warmup_updates)^-0.5 at its peak
    "warmup_updates": 4_000,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-9,
    "clip_norm": 0.0,
    "ema_decay": 0.0,
    "save_every": 1_500,
    "keep_last": 5,
}
"""The class defaults that are the paper's base model and its training (sections 5.1 to 5.4)."""


def resolved(preset: str) -> dict[str, Value]:
    recipe = resolve_recipe(preset, PRESETS[preset].architecture, [("p", preset_values(preset))])
    return dataclasses.asdict(recipe.model) | dataclasses.asdict(recipe.training)


def test_the_class_defaults_are_the_paper_s_base_model() -> None:
    defaults = dataclasses.asdict(TransformerConfig()) | dataclasses.asdict(TrainingConfig())
    assert {key: defaults[key] for key in PAPER} == PAPER
    assert resolved("transformer_base") == defaults


def test_presets_are_frozen() -> None:
    defaults = dataclasses.asdict(TransformerConfig()) | dataclasses.asdict(TrainingConfig())
    found = {
        preset: {key: value for key, value in resolved(preset).items() if value != defaults[key]}
        for preset in PRESETS
    }
    assert found == FROZEN


def test_a_preset_says_only_what_its_parent_does_not() -> None:
    for name, preset in PRESETS.items():
        parent = resolved(preset.parent) if preset.parent else resolved("transformer_base")
        repeated = {key for key, value in preset.changes.items() if parent[key] == value}
        assert not repeated, f"{name} repeats {repeated}"


def test_every_architecture_has_a_configuration() -> None:
    assert ARCHITECTURES.keys() == MODEL_CONFIGS.keys()
    assert {preset.architecture for preset in PRESETS.values()} <= ARCHITECTURES.keys()


def test_an_unknown_preset_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown model 'transformer_bse'.*'transformer_base'"):
        find_preset("transformer_bse")
    with pytest.raises(UsageError, match=r"known: .*transformer_tiny"):
        preset_values("zzz")


# ------------------------------------------------------------------------------- sizes


def matrices(config: TransformerConfig, vocab: int = VOCAB) -> int:
    """Count the numbers in matrices, as built."""
    with torch.device("meta"):
        model = build_model("transformer", config, vocab, vocab)
    return sum(p.numel() for p in model.parameters() if p.dim() > 1)


def test_the_base_model_has_63_million_numbers_in_matrices() -> None:
    # embeddings         37,000 * 512                       = 18,944,000
    # an encoder layer   4 * 512^2 + 2 * 512 * 2,048        =  3,145,728
    # a decoder layer    8 * 512^2 + 2 * 512 * 2,048        =  4,194,304
    # in all             18,944,000 + 6 * 7,340,032         = 62,984,192    paper: 65 million
    assert matrices(TransformerConfig()) == 62_984_192


def test_the_big_model_has_214_million_numbers_in_matrices() -> None:
    # embeddings         37,000 * 1,024                     =  37,888,000
    # an encoder layer   4 * 1,024^2 + 2 * 1,024 * 4,096    =  12,582,912
    # a decoder layer    8 * 1,024^2 + 2 * 1,024 * 4,096    =  16,777,216
    # in all             37,888,000 + 6 * 29,360,128        = 214,048,768   paper: 213 million
    assert matrices(TransformerConfig(d_model=1024, d_ff=4096, num_heads=16)) == 214_048_768


@pytest.mark.parametrize(
    ("config", "millions"),
    [
        # A layer of each side has 12 d^2 + 4 d d_ff = 7,340,032 of base's numbers.
        (TransformerConfig(num_encoder_layers=2, num_decoder_layers=2), -29.4),  # -4 * 7.34
        (TransformerConfig(num_encoder_layers=4, num_decoder_layers=4), -14.7),  # -2 * 7.34
        (TransformerConfig(num_encoder_layers=8, num_decoder_layers=8), 14.7),  # +2 * 7.34
        # 37,000 * 256 + 6 * (12 * 256^2 + 4 * 256 * 2,048) = 26.77
        (TransformerConfig(d_model=256), -36.2),
        # 37,000 * 1,024 + 6 * (12 * 1,024^2 + 4 * 1,024 * 2,048) = 163.72
        (TransformerConfig(d_model=1024), 100.7),
        (TransformerConfig(d_ff=1024), -12.6),  # 6 * 4 * 512 * -1,024
        (TransformerConfig(d_ff=4096), 25.2),  # 6 * 4 * 512 * 2,048
        (TransformerConfig(num_heads=16), 0.0),  # heads cut the same matrices
        (TransformerConfig(d_model=1024, d_ff=4096, num_heads=16), 151.1),
    ],
)
def test_table_3_s_sizes_differ_from_base_as_by_hand(
    config: TransformerConfig, millions: float
) -> None:
    assert round((matrices(config) - 62_984_192) / 1e6, 1) == millions


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_all_parameters_are_counted_tied_ones_once(tie_embeddings: str) -> None:
    d, ff, layers, src, tgt = 32, 80, 3, 50, 60
    config = TransformerConfig(
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        d_model=d,
        d_ff=ff,
        num_heads=4,
        tie_embeddings=tie_embeddings,
    )
    if tie_embeddings == "all":
        src = tgt
    embeddings = {"all": tgt, "decoder": src + tgt, "none": src + 2 * tgt}[tie_embeddings] * d
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    encoder_layer = 4 * d * d + feed_forward + 2 * norm
    decoder_layer = 8 * d * d + feed_forward + 3 * norm
    expected = embeddings + layers * (encoder_layer + decoder_layer)
    assert count_parameters("transformer", config, src, tgt) == expected
    built = build_model("transformer", config, src, tgt)
    assert sum(parameter.numel() for parameter in built.parameters()) == expected
