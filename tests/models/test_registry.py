"""Presets are frozen, and sizes are those of hand arithmetic."""

import dataclasses
import hashlib
import json

import pytest
import torch
from tiny_models import TGT_VOCAB, TINY, tiny

from nmt.config.fields import Value
from nmt.config.model_config import MODEL_CONFIGS, ConvolutionalConfig
from nmt.config.presets import PRESETS, preset_values
from nmt.config.recipes import Recipe, resolve_recipe
from nmt.config.training_config import TrainingConfig
from nmt.models.registry import (
    ARCHITECTURES,
    build_model,
    count_parameters,
    parameters_by_names,
    shapes_only,
)

VOCAB = 37_000  # the paper's joint vocabulary of English and German


FROZEN = {
    "transformer_base": "44136fa355b3",
    "transformer_big": "9fe50464c5cf",
    "transformer_big_en_fr": "cedea32ab8ce",
    "transformer_parsing": "d2cd8d4c6510",
    "transformer_parsing_semi": "7ec1ec65e26b",
    "transformer_iwslt": "dc9e359f6885",
    "transformer_small": "5201af490619",
    "transformer_tiny": "02f6b5358e4a",
    "transformer_portable": "00132698deaf",
    "transformer_modern": "aca87facef87",
    "transformer_wmt": "b86ba0b2f883",
    "transformer_modern_small": "67899737f431",
    "transformer_low_resource": "6091359cf8af",
    "transformer_portable_few": "49d24a09f673",
    "transformer_deep_shallow": "2009a3dc2ee0",
    "transformer_relative": "105d788d6a85",
    "transformer_student_base": "a0547da1e4d1",
    "transformer_student_tiny": "ee3629dfce93",
    "transformer_base_heads1": "2f0b1a82ebf2",
    "transformer_base_heads4": "023c4956e098",
    "transformer_base_heads16": "c0dd62f4c587",
    "transformer_base_heads32": "dc845daf28af",
    "transformer_base_dk16": "627ca9c47b67",
    "transformer_base_dk32": "b69ff168d456",
    "transformer_base_layers2": "1109b25fbaa8",
    "transformer_base_layers4": "d90d290ccc1f",
    "transformer_base_layers8": "836b2fe80e29",
    "transformer_base_dmodel256": "ce7db63b97e0",
    "transformer_base_dmodel1024": "9e570a505980",
    "transformer_base_dff1024": "d070e7c14792",
    "transformer_base_dff4096": "d664ce4a2232",
    "transformer_base_dropout0": "a99fd988339d",
    "transformer_base_dropout0.2": "fc2f4653f25b",
    "transformer_base_smoothing0": "572703f1b808",
    "transformer_base_smoothing0.2": "dae0e682045a",
    "transformer_base_learned_positions": "98875a227e4a",
    "conv_seq2seq": "c382850e258a",
    "conv_seq2seq_small": "f2ef101c067b",
    "rnn_attention": "e933cfd1488f",
    "rnn_attention_small": "f9be782dba89",
}
"""The hash of each preset's values that differ from the class defaults. Published results depend on
them. Never change a preset here. Give a new one a new name."""

PAPER: dict[str, Value] = {
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "d_model": 512,
    "d_ff": 2048,
    "num_heads": 8,
    "d_k": 0,
    "d_v": 0,  # 512 / 8
    "pre_norm": False,
    "norm": "layer",
    "feed_forward": "relu",
    "positions": "sinusoidal",
    "max_relative_distance": 16,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "tie_embeddings": "all",
    "batch_tokens": 25_000,
    "max_updates": 100_000,
    "save_every": 1_500,
    "keep_last": 5,
    # The learning rate 0 means the paper's: (d_model * warmup_updates)^-0.5 at its peak.
    "schedule": "inverse_sqrt",
    "learning_rate": 0.0,
    "warmup_updates": 4_000,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-9,
    "clip_norm": 0.0,
    "ema_decay": 0.0,
    "weight_decay": 0.0,
}
"""The class defaults that are the paper's base model and its training (sections 5.1 to 5.4)."""

GEHRING: dict[str, Value] = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), 15)
GEHRING |= {"d_model": 512, "d_hidden": 512, "kernel_width": 3, "max_positions": 1024}
GEHRING |= {"dropout": 0.2, "tie_embeddings": "all"}
"""Section 5.1 of Gehring et al. (2017), WMT14 En-De, where the last five layers are wider."""


def recipe_of(preset: str) -> Recipe:
    return resolve_recipe(preset, PRESETS[preset].architecture, [("p", preset_values(preset))])


def resolved(preset: str) -> dict[str, Value]:
    recipe = recipe_of(preset)
    return dataclasses.asdict(recipe.model) | dataclasses.asdict(recipe.training)


def class_defaults(preset: str) -> dict[str, Value]:
    model = MODEL_CONFIGS[PRESETS[preset].architecture]()
    return dataclasses.asdict(model) | dataclasses.asdict(TrainingConfig())


def parameters(preset: str) -> int:
    recipe = recipe_of(preset)
    return count_parameters(recipe.architecture, recipe.model, VOCAB, VOCAB)


def test_the_class_defaults_are_those_of_the_papers() -> None:
    defaults = class_defaults("transformer_base")
    assert {key: defaults[key] for key in PAPER} == PAPER
    assert resolved("transformer_base") == defaults
    assert dataclasses.asdict(ConvolutionalConfig()) == GEHRING


def hash_of(preset: str) -> str:
    defaults, values = class_defaults(preset), resolved(preset)
    changes = {key: value for key, value in values.items() if value != defaults[key]}
    return hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:12]


def test_presets_are_frozen() -> None:
    assert {preset: hash_of(preset) for preset in PRESETS} == FROZEN


def test_a_preset_does_not_repeat_its_parent() -> None:
    for name, preset in PRESETS.items():
        parent = resolved(preset.parent) if preset.parent else class_defaults(name)
        repeated = {key for key, value in preset.changes.items() if parent[key] == value}
        assert not repeated, f"{name} repeats {repeated}"


# -------------------------------------------------------------------- sizes by hand


@pytest.mark.parametrize(
    ("preset", "matrices", "vectors"),
    [
        # embeddings         37,000 * 512                       = 18,944,000
        # an encoder layer   4 * 512^2 + 2 * 512 * 2,048        =  3,145,728
        # a decoder layer    8 * 512^2 + 2 * 512 * 2,048        =  4,194,304
        # in all             18,944,000 + 6 * 7,340,032         = 62,984,192    paper: 65 million
        # 12 * (2,048 + 512) biases and 30 norms of 1,024
        ("transformer_base", 62_984_192, 61_440),
        # embeddings         37,000 * 1,024                     =  37,888,000
        # an encoder layer   4 * 1,024^2 + 2 * 1,024 * 4,096    =  12,582,912
        # a decoder layer    8 * 1,024^2 + 2 * 1,024 * 4,096    =  16,777,216
        # in all             37,888,000 + 6 * 29,360,128        = 214,048,768   paper: 213 million
        ("transformer_big", 214_048_768, 122_880),
        # an encoder layer   4 * 512^2 + 2 * 512 * 2,048              =  3,145,728
        # SSRU               2 * 512^2                                =    524,288
        # a decoder layer    524,288 + 4 * 512^2 + 2 * 512 * 2,048    =  3,670,016
        # in all             18,944,000 + 6 * 3,145,728 + 2 * 3,670,016
        # biases             37,000 + 8 * (4 * 512 + 2,048 + 512) + 2 * 512, and 18 norms of 1,024
        ("transformer_student_base", 45_158_400, 93_320),
        # In 6 + 6 layers, vectors of 64 for keys and for values at the distances -16 to 16.
        ("transformer_relative", 62_984_192 + 12 * 2 * 33 * 64, 61_440),
        ("transformer_base_learned_positions", 62_984_192 + 2 * 1_024 * 512, 61_440),
        # Base's feed-forward sub-layer has 2 * 512 * 2,048 numbers in matrices, the modern one
        # 3 * 512 * 1,368. There are no biases, and 32 norms of 512.
        ("transformer_modern", 62_984_192 + 12 * 512 * (3 * 1_368 - 2 * 2_048), 16_384),
        # embeddings             37,000 * 512                                  = 18,944,000
        # the encoder's layers   4 * 1,024 * (512 + 512)                       =  4,194,304
        #                        2 * 4 * 1,024 * (1,024 + 512)                 = 12,582,912
        # the decoder's layers   4 * 1,024 * (512 + 512 + 1,024)               =  8,388,608
        #                        2 * 4 * 1,024 * (1,024 + 1,024)               = 16,777,216
        # attention              2 * 512 * 1,024, and 512 in a vector          =  1,048,576
        # attentional state      512 * 2 * 1,024                               =  1,048,576
        # biases                 3 * 2 * 4 * 1,024 and 3 * 4 * 1,024           =     36,864
        ("rnn_attention", 62_984_192, 512 + 36_864),
        # embeddings             37,000 * 512                                  = 18,944,000
        # positions              2 * 1,024 * 512                               =  1,048,576
        # convolutions           30 * 1,024 * 3 * 512 and 30 * 1,024 biases    = 47,185,920
        # attentions             15 * 2 * 512 * 512 and 15 * 2 * 512 biases    =  7,864,320
        # maps of both ends      2 * 2 * 512 * 512 and 2 * 2 * 512 biases      =  1,048,576
        ("conv_seq2seq", 76_091_392, 48_128),
    ],
)
def test_presets_have_as_many_parameters_as_by_hand(
    preset: str, matrices: int, vectors: int
) -> None:
    recipe = recipe_of(preset)
    with torch.device("meta"):
        model = build_model(recipe.architecture, recipe.model, VOCAB, VOCAB)
    assert sum(p.numel() for p in model.parameters() if p.dim() > 1) == matrices
    assert parameters(preset) == matrices + vectors


# ------------------------------------------------------------------ parameters by name


@pytest.mark.parametrize(("tie_embeddings", "shared"), [("all", 3), ("decoder", 2), ("none", 1)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tied_embeddings_are_one_parameter(
    architecture: str, tie_embeddings: str, shared: int
) -> None:
    model = tiny(architecture, tie_embeddings)
    (names,) = (names for names, p in parameters_by_names(model) if p is model.output_projection)
    sides = ["output_projection", "tgt_embedding", "src_embedding"]
    assert [name.partition(".")[0] for name in names] == sides[:shared]
    assert model.output_projection.shape == (TGT_VOCAB, TINY[architecture].d_model)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_models_without_values_have_the_same_shapes_and_draw_nothing(architecture: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with shapes_only():
        empty = build_model(architecture, TINY[architecture], TGT_VOCAB, TGT_VOCAB)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.is_meta for parameter in empty.parameters())
    model = build_model(architecture, TINY[architecture], TGT_VOCAB, TGT_VOCAB)
    assert {name: (p.shape, p.dtype) for name, p in empty.named_parameters()} == {
        name: (p.shape, p.dtype) for name, p in model.named_parameters()
    }
