"""Presets are frozen, and their sizes are the paper's by hand arithmetic."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nmt.config import Recipe, TrainingConfig, resolve_recipe
from nmt.errors import UsageError
from nmt.model_config import (
    MODEL_CONFIGS,
    ConvolutionalConfig,
    RecurrentConfig,
    TransformerConfig,
)
from nmt.models.presets import PRESETS, TABLE_3, find_preset, preset_values
from nmt.models.registry import ARCHITECTURES, build_model, count_parameters
from nmt.values import Value

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
    "transformer_big_en_fr": {
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,
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
    "transformer_low_resource": {
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "d_model": 256,
        "d_ff": 1024,
        "num_heads": 4,
        "dropout": 0.3,
        "batch_tokens": 2_000,
        "max_updates": 6_500,
        "schedule": "linear",
        "learning_rate": 2e-3,
        "warmup_updates": 300,
        "ema_decay": 0.999,
        "validate_every": 500,
        "validate_bleu": True,
        "best_metric": "bleu",
        "save_every": 500,
    },
    "transformer_tiny": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 128,
        "d_ff": 512,
        "num_heads": 4,
        "batch_tokens": 4_096,
    },
    "transformer_base_heads1": {"num_heads": 1},
    "transformer_base_heads4": {"num_heads": 4},
    "transformer_base_heads16": {"num_heads": 16},
    "transformer_base_heads32": {"num_heads": 32},
    "transformer_base_layers2": {"num_encoder_layers": 2, "num_decoder_layers": 2},
    "transformer_base_layers4": {"num_encoder_layers": 4, "num_decoder_layers": 4},
    "transformer_base_layers8": {"num_encoder_layers": 8, "num_decoder_layers": 8},
    "transformer_base_dmodel256": {"d_model": 256},
    "transformer_base_dmodel1024": {"d_model": 1024},
    "transformer_base_dff1024": {"d_ff": 1024},
    "transformer_base_dff4096": {"d_ff": 4096},
    "transformer_base_dropout0": {"dropout": 0.0},
    "transformer_base_dropout0.2": {"dropout": 0.2},
    "transformer_base_smoothing0": {"label_smoothing": 0.0},
    "transformer_base_smoothing0.2": {"label_smoothing": 0.2},
    "conv_seq2seq": {"learning_rate": 1e-3, "clip_norm": 0.1},
    "conv_seq2seq_small": {
        "num_encoder_layers": 5,
        "num_decoder_layers": 5,
        "d_model": 256,
        "d_hidden": 256,
        "batch_tokens": 4_096,
        "learning_rate": 3e-3,
        "clip_norm": 0.1,
    },
    "transformer_modern": {
        "pre_norm": True,
        "norm": "rms",
        "feed_forward": "swiglu",
        "positions": "rotary",
        "d_ff": 1368,
    },
    "transformer_modern_small": {
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "d_model": 256,
        "num_heads": 4,
        "batch_tokens": 4_096,
        "pre_norm": True,
        "norm": "rms",
        "feed_forward": "swiglu",
        "positions": "rotary",
        "d_ff": 688,
    },
    "transformer_base_learned_positions": {"positions": "learned"},
    "transformer_base_dk16": {"d_k": 16},
    "transformer_base_dk32": {"d_k": 32},
    "transformer_deep_shallow": {
        "num_encoder_layers": 12,
        "num_decoder_layers": 2,
        "pre_norm": True,
        "norm": "rms",
        "feed_forward": "swiglu",
        "d_ff": 1368,
    },
    "transformer_relative": {"positions": "relative"},
    "transformer_local": {"attention_window": 128},
    "rnn_attention": {"clip_norm": 1.0},
    "rnn_attention_small": {
        "num_encoder_layers": 2,
        "num_decoder_layers": 1,
        "d_model": 256,
        "d_hidden": 512,
        "batch_tokens": 4_096,
        "clip_norm": 1.0,
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
    "d_k": 0,  # 512 / 8
    "d_v": 0,
    "pre_norm": False,
    "norm": "layer",
    "feed_forward": "relu",
    "positions": "sinusoidal",
    "max_relative_distance": 16,
    "attention_window": 0,
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


def recipe_of(preset: str) -> Recipe:
    return resolve_recipe(preset, PRESETS[preset].architecture, [("p", preset_values(preset))])


def resolved(preset: str) -> dict[str, Value]:
    recipe = recipe_of(preset)
    return dataclasses.asdict(recipe.model) | dataclasses.asdict(recipe.training)


def class_defaults(preset: str) -> dict[str, Value]:
    model = MODEL_CONFIGS[PRESETS[preset].architecture]()
    return dataclasses.asdict(model) | dataclasses.asdict(TrainingConfig())


def test_the_class_defaults_are_the_paper_s_base_model() -> None:
    defaults = class_defaults("transformer_base")
    assert {key: defaults[key] for key in PAPER} == PAPER
    assert resolved("transformer_base") == defaults


def test_presets_are_frozen() -> None:
    found = {
        preset: {key: value for key, value in resolved(preset).items() if value != defaults[key]}
        for preset in PRESETS
        for defaults in [class_defaults(preset)]
    }
    assert found == FROZEN


def test_a_preset_says_only_what_its_parent_does_not() -> None:
    for name, preset in PRESETS.items():
        parent = resolved(preset.parent) if preset.parent else class_defaults(name)
        repeated = {key for key, value in preset.changes.items() if parent[key] == value}
        assert not repeated, f"{name} repeats {repeated}"


def test_every_variation_of_the_paper_s_has_its_row_of_table_3() -> None:
    variations = {name for name, preset in PRESETS.items() if "Table 3" in preset.summary}
    assert variations | {"transformer_base", "transformer_big"} == TABLE_3.keys()
    base = count_parameters("transformer", recipe_of("transformer_base").model, VOCAB, VOCAB) / 1e6
    for name in variations | {"transformer_base", "transformer_big"}:
        found = count_parameters("transformer", recipe_of(name).model, VOCAB, VOCAB) / 1e6
        by_paper = TABLE_3[name].parameters - TABLE_3["transformer_base"].parameters
        assert found - base == pytest.approx(by_paper, abs=4), name  # the paper rounds, and slips


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


def test_relative_positions_add_two_vectors_for_each_distance_of_each_layer() -> None:
    # In 6 + 6 layers, vectors of 64 for keys and for values at the distances -16 to 16:
    # 12 * 2 * 33 * 64 = 50,688
    assert matrices(TransformerConfig(positions="relative")) == 62_984_192 + 50_688


@pytest.mark.parametrize(
    ("preset", "millions"),
    [
        # A layer of each side has 12 d^2 + 4 d d_ff = 7,340,032 of base's numbers.
        # 18 attentions with a matrix of queries and one of keys: 18 * 2 * 512 * 8 * (16 - 64)
        ("transformer_base_dk16", -7.1),  # paper: -7
        ("transformer_base_dk32", -4.7),  # 18 * 2 * 512 * 8 * (32 - 64); paper: -5
        ("transformer_base_learned_positions", 1.0),  # 2 * 1,024 * 512
        ("transformer_base_layers2", -29.4),  # -4 * 7.34; paper: -29
        ("transformer_base_layers4", -14.7),  # -2 * 7.34; paper: -15
        ("transformer_base_layers8", 14.7),  # +2 * 7.34; paper: +15
        # 37,000 * 256 + 6 * (12 * 256^2 + 4 * 256 * 2,048) = 26.77; paper: -37
        ("transformer_base_dmodel256", -36.2),
        # 37,000 * 1,024 + 6 * (12 * 1,024^2 + 4 * 1,024 * 2,048) = 163.72; paper: +103
        ("transformer_base_dmodel1024", 100.7),
        ("transformer_base_dff1024", -12.6),  # 6 * 4 * 512 * -1,024; paper: -12
        ("transformer_base_dff4096", 25.2),  # 6 * 4 * 512 * 2,048; paper: +25
        ("transformer_base_heads1", 0.0),  # heads cut the same matrices
        ("transformer_base_heads4", 0.0),
        ("transformer_base_heads16", 0.0),
        ("transformer_base_heads32", 0.0),
        ("transformer_base_dropout0", 0.0),
        ("transformer_base_smoothing0", 0.0),
        ("transformer_big", 151.1),  # paper: +148
        ("transformer_big_en_fr", 151.1),
    ],
)
def test_presets_differ_from_base_in_size_as_by_hand(preset: str, millions: float) -> None:
    config = recipe_of(preset).model
    assert isinstance(config, TransformerConfig)
    assert round((matrices(config) - 62_984_192) / 1e6, 1) == millions


def test_twelve_encoder_and_two_decoder_layers_have_2_million_numbers_more_than_six_each() -> None:
    # An encoder layer has 4 * 512^2 + 3 * 512 * 1,368 numbers in matrices and 2 * 512 in norms, a
    # decoder layer 4 * 512^2 + 512 more: 6 * 3,150,848 - 4 * 4,199,936 = 2,105,344.
    six, deep_shallow = (
        count_parameters("transformer", recipe_of(name).model, VOCAB, VOCAB)
        for name in ("transformer_modern", "transformer_deep_shallow")
    )
    assert deep_shallow - six == 2_105_344


@pytest.mark.parametrize(
    ("preset", "parent", "parameters", "difference"),
    [
        # Base's feed-forward sub-layer has 2 * 512 * 2,048 + 2,048 + 512 = 2,099,712 numbers, the
        # other one 3 * 512 * 1,368 = 2,101,248: over 12 layers, 18,432 more. Base has 30 norms of
        # 1,024 numbers, the other one 32 of 512: 14,336 fewer. Base has its matrices' numbers and
        # 12 * (2,048 + 512) + 30 * 1,024 in all.
        ("transformer_modern", "transformer_base", 63_045_632, 4_096),
        # 2 * 256 * 1,024 + 1,024 + 256 = 525,568 and 3 * 256 * 688 = 528,384: over 6 layers,
        # 16,896 more. 15 norms of 512 and 17 of 256: 3,328 fewer.
        # Small has 37,000 * 256 + 3 * 12 * 256^2 + 6 * 525,568 + 15 * 512 in all.
        ("transformer_modern_small", "transformer_small", 14_992_384, 13_568),
    ],
)
def test_modern_presets_have_as_many_parameters_as_their_counterparts(
    preset: str, parent: str, parameters: int, difference: int
) -> None:
    counts = [
        count_parameters("transformer", recipe_of(name).model, VOCAB, VOCAB)
        for name in (parent, preset)
    ]
    assert counts == [parameters, parameters + difference]
    assert abs(difference) < 0.001 * parameters


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


def test_the_recurrent_presets_are_as_large_as_those_of_the_transformer() -> None:
    # embeddings             37,000 * 512                                  = 18,944,000
    # the encoder's layers   4 * 1,024 * (512 + 512)                       =  4,194,304
    #                        2 * 4 * 1,024 * (1,024 + 512)                 = 12,582,912
    # the decoder's layers   4 * 1,024 * (512 + 512 + 1,024)               =  8,388,608
    #                        2 * 4 * 1,024 * (1,024 + 1,024)               = 16,777,216
    # attention              2 * 512 * 1,024 and 512                       =  1,049,088
    # attentional state      512 * 2 * 1,024                               =  1,048,576
    # biases                 3 * 2 * 4 * 1,024 and 3 * 4 * 1,024           =     36,864
    base = RecurrentConfig()
    assert count_parameters("rnn_attention", base, VOCAB, VOCAB) == 63_021_568  # base: 63,045,632
    # embeddings              8,000 * 256                                  =  2,048,000
    # the encoder's layers   4 * 512 * (256 + 256)                         =  1,048,576
    #                        4 * 512 * (512 + 256)                         =  1,572,864
    # the decoder's layer    4 * 512 * (256 + 256 + 512)                   =  2,097,152
    # attention              2 * 256 * 512 and 256                         =    262,400
    # attentional state      256 * 2 * 512                                 =    262,144
    # biases                 2 * 2 * 4 * 512 and 4 * 512                   =     10,240
    small = RecurrentConfig(num_encoder_layers=2, num_decoder_layers=1, d_model=256, d_hidden=512)
    assert count_parameters("rnn_attention", small, 8_000, 8_000) == 7_301_376  # small: 7,568,384


@pytest.mark.parametrize(("tie_embeddings", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_recurrent_models_share_embeddings_too(tie_embeddings: str, tables: int) -> None:
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 8, "d_hidden": 4}
    one, found = (
        count_parameters("rnn_attention", RecurrentConfig(**sizes, tie_embeddings=tied), 50, 50)
        for tied in ("all", tie_embeddings)
    )
    assert found == one + (tables - 1) * 50 * 8


def test_the_convolutional_presets_have_the_sizes_of_hand_arithmetic() -> None:
    # embeddings             37,000 * 512                                  = 18,944,000
    # positions              2 * 1,024 * 512                               =  1,048,576
    # convolutions           30 * (1,024 * 3 * 512 + 1,024)                = 47,216,640
    # attentions             15 * (2 * 512 * 512 + 2 * 512)                =  7,879,680
    # maps of both ends      2 * 2 * (512 * 512 + 512)                     =  1,050,624
    base = ConvolutionalConfig()
    assert count_parameters("conv_seq2seq", base, VOCAB, VOCAB) == 76_139_520
    # embeddings              8,000 * 256                                  =  2,048,000
    # positions              2 * 1,024 * 256                               =    524,288
    # convolutions           10 * (512 * 3 * 256 + 512)                    =  3,937,280
    # attentions             5 * (2 * 256 * 256 + 2 * 256)                 =    657,920
    # maps of both ends      2 * 2 * (256 * 256 + 256)                     =    263,168
    small = ConvolutionalConfig(
        num_encoder_layers=5, num_decoder_layers=5, d_model=256, d_hidden=256
    )
    assert count_parameters("conv_seq2seq", small, 8_000, 8_000) == 7_430_656  # small: 7,568,384


def test_the_convolutional_model_s_defaults_are_the_paper_s() -> None:
    # Section 5.1: 15 layers of each side for WMT14 En-De (there the last five are wider), kernels
    # of 3, 512 units and embeddings as wide.
    defaults = dataclasses.asdict(ConvolutionalConfig())
    assert defaults == {
        "num_encoder_layers": 15,
        "num_decoder_layers": 15,
        "d_model": 512,
        "d_hidden": 512,
        "kernel_width": 3,
        "dropout": 0.2,
        "tie_embeddings": "all",
        "max_positions": 1024,
    }


@pytest.mark.parametrize(("tie_embeddings", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_convolutional_models_share_embeddings_too(tie_embeddings: str, tables: int) -> None:
    one, found = (
        count_parameters(
            "conv_seq2seq",
            ConvolutionalConfig(num_encoder_layers=1, d_model=8, d_hidden=6, tie_embeddings=tied),
            50,
            50,
        )
        for tied in ("all", tie_embeddings)
    )
    assert found == one + (tables - 1) * 50 * 8
