"""Presets: named recipes, each its parent plus the values that differ.

A named preset is frozen, because published results depend on it. Rows of Table 3 are named after
the option of base that differs and its value, as `--set` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nmt.config.fields import Value
from nmt.errors import UsageError, did_you_mean


class Preset(NamedTuple):
    """A named recipe: the values of its parent, or else the class defaults, plus `changes`."""

    parent: str | None
    changes: Mapping[str, Value]
    summary: str
    body: int | None = None
    """Parameters besides those of each token, which are d_model and its bias, if it has one. None:
    as many as the parent. Counted here, since building a model to count them takes torch, and that
    takes seconds."""
    architecture: str = "transformer"


def _layers(number: int) -> dict[str, Value]:
    return {"num_encoder_layers": number, "num_decoder_layers": number}


_LOW_RESOURCE: dict[str, Value] = _layers(4) | {
    "d_model": 128,
    "batch_tokens": 2_000,
    "max_updates": 6_000,
    "schedule": "linear",
    "learning_rate": 4e-3,
    "ema_decay": 0.999,
    "validate_every": 500,
    "validate_metric": "bleu",
    "best_metric": "bleu",
    "save_every": 500,
}

_VARIATIONS: dict[str, tuple[str, dict[str, Value], int | None]] = {
    "heads1": ("A: 1 head", {"num_heads": 1}, None),
    "heads4": ("A: 4 heads", {"num_heads": 4}, None),
    "heads16": ("A: 16 heads", {"num_heads": 16}, None),
    "heads32": ("A: 32 heads", {"num_heads": 32}, None),
    "dk16": ("B: queries and keys 16 wide", {"d_k": 16}, 37_023_744),
    "dk32": ("B: queries and keys 32 wide", {"d_k": 32}, 39_383_040),
    "layers2": ("C: 2 layers a side", _layers(2), 14_700_544),
    "layers4": ("C: 4 layers a side", _layers(4), 29_401_088),
    "layers8": ("C: 8 layers a side", _layers(8), 58_802_176),
    "dmodel256": ("C: narrower", {"d_model": 256}, 17_344_512),
    "dmodel1024": ("C: wider", {"d_model": 1024}, 125_927_424),
    "dff1024": ("C: narrower feed-forward", {"d_ff": 1024}, 31_506_432),
    "dff4096": ("C: wider feed-forward", {"d_ff": 4096}, 69_292_032),
    "dropout0": ("D: no dropout", {"dropout": 0.0}, None),
    "dropout0.2": ("D: more dropout", {"dropout": 0.2}, None),
    "smoothing0": ("D: no label smoothing", {"label_smoothing": 0.0}, None),
    "smoothing0.2": ("D: more label smoothing", {"label_smoothing": 0.2}, None),
    "learned_positions": ("E: learned positions", {"positions": "learned"}, 45_150_208),
}
"""Rows of the paper's Table 3: what differs from base, and `changes` and `body` of the `Preset`."""

FAMILIES: dict[str, dict[str, Preset]] = {
    "Transformer": {
        "transformer_base": Preset(None, {}, "the paper's base model", 44_101_632),
        "transformer_big": Preset(
            "transformer_base",
            {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "max_updates": 300_000}
            | {"save_every": 600, "keep_last": 20},
            "the paper's big model",
            176_283_648,
        ),
        "transformer_big_en_fr": Preset(
            "transformer_big", {"dropout": 0.1}, "the paper's big model for English to French"
        ),
        # Section 6.3. Dropout and learning rate, which the paper does not state, are those of its
        # authors' Tensor2Tensor (parsing_base and parsing_big): half of the usual peak.
        "transformer_parsing": Preset(
            "transformer_base",
            {**_layers(4), "d_model": 1024, "dropout": 0.2}
            | {"warmup_updates": 16_000, "learning_rate": 1.235e-4},
            "the paper's model for parsing, trained on the treebank only: see examples/parsing",
            83_951_616,
        ),
        "transformer_parsing_semi": Preset(
            "transformer_parsing",
            {"dropout": 0.1, "warmup_updates": 4_000, "learning_rate": 2.47e-4},
            "the paper's model for parsing, trained on millions of parsed sentences, too",
        ),
        # The values of fairseq's example for IWSLT14, see examples/iwslt14.
        "transformer_iwslt": Preset(
            "transformer_base",
            {"d_ff": 1024, "num_heads": 4, "dropout": 0.3, "batch_tokens": 4_096}
            | {"learning_rate": 5e-4, "weight_decay": 1e-4, "adam_epsilon": 1e-8}
            | {"save_every": 1_000, "keep_last": 10},
            "the model that papers compare on IWSLT14, 160,000 pairs of German and English",
            31_506_432,
        ),
        "transformer_small": Preset(
            "transformer_base",
            {**_layers(3), "d_model": 256, "d_ff": 1024} | {"num_heads": 4, "batch_tokens": 4_096},
            "for some ten thousand to a million pairs, or a CPU",
            5_520_384,
        ),
        "transformer_tiny": Preset(
            "transformer_small",
            {**_layers(2), "d_model": 128, "d_ff": 512},
            "for tests and toy languages",
            922_624,
        ),
        "transformer_portable": Preset(
            "transformer_small",
            {"positions": "sinusoidal_halves", "first_input": "zeros", "guided_alignment": 0.05},
            "transformer_small by Marian's formulas, which all programs of `nmt export` open",
        ),
    },
    "Transformer, later variants": {
        "transformer_modern": Preset(
            "transformer_base",
            {
                "d_ff": 1368,
                "pre_norm": True,
                "norm": "rms",
                "feed_forward": "swiglu",
                "positions": "rotary",
            },
            "pre-norm, RMSNorm, SwiGLU and rotary positions, with as many parameters as "
            "transformer_base",
            44_105_728,
        ),
        # The rate is twice base's peak, as was best for transformer_small on Europarl: see
        # nmt/training/README.md.
        "transformer_wmt": Preset(
            "transformer_modern",
            {
                "schedule": "linear",
                "learning_rate": 1.4e-3,
                "ema_decay": 0.999,
                "max_updates": 50_000,
                "save_every": 1_000,
            },
            "transformer_modern, planned for half of base's updates: see examples/wmt14",
        ),
        "transformer_modern_small": Preset(
            "transformer_modern",
            {**_layers(3), "d_model": 256, "d_ff": 688} | {"num_heads": 4, "batch_tokens": 4_096},
            "transformer_modern at the size of transformer_small",
            5_533_952,
        ),
        # Its values were found on the 29,000 pairs of Multi30k: see examples/multi30k.
        "transformer_low_resource": Preset(
            "transformer_modern_small",
            _LOW_RESOURCE | {"d_ff": 344, "dropout": 0.2, "warmup_updates": 300},
            "for some ten thousand pairs: narrow and modern, small updates, a high learning rate, "
            "averaged weights",
            1_846_016,
        ),
        # Its values were found there, too: see EXPERIMENTS.md there.
        "transformer_portable_few": Preset(
            "transformer_portable",
            _LOW_RESOURCE
            | {"d_ff": 512, "feed_forward": "swish", "dropout": 0.15}
            | {"schedule": "until_flat", "warmup_updates": 500, "max_updates": 4_800},
            "transformer_low_resource by Marian's formulas, which all programs open",
            1_845_248,
        ),
        "transformer_deep_shallow": Preset(
            "transformer_modern",
            {"num_encoder_layers": 12, "num_decoder_layers": 2, "positions": "sinusoidal"},
            "12 layers in the encoder, which runs once a sentence, and 2 in the decoder "
            "(Kasai et al. 2021); modern ones, since post-norm learns late with so few",
            46_211_072,
        ),
        "transformer_relative": Preset(
            "transformer_base",
            {"positions": "relative"},
            "base with relative positions, k = 16 (Shaw et al. 2018)",
            44_152_320,
        ),
    },
    "Transformer, students for Firefox and Bergamot": {
        # The values of Mozilla's pipeline for Firefox Translations. A student learns a teacher's
        # text, so it needs neither dropout nor label smoothing.
        "transformer_student_base": Preset(
            "transformer_base",
            {
                "num_decoder_layers": 2,
                "decoder_memory": "ssru",
                "positions": "sinusoidal_halves",
                "norm_epsilon": 1e-6,
                "attention_bias": True,
                "output_bias": True,
                "first_input": "zeros",
                "dropout": 0.0,
                "label_smoothing": 0.0,
                "guided_alignment": 0.1,
                "learning_rate": 3e-4,
                "warmup_updates": 16_000,
                "ema_decay": 0.9999,
                "max_updates": 300_000,
                "validate_every": 5_000,
                "save_every": 5_000,
            },
            "a student of a teacher: Marian's formulas, with SSRU in the decoder",
            26_270_720,
        ),
        "transformer_student_tiny": Preset(
            "transformer_student_base",
            {"d_model": 256, "d_ff": 1536},
            "transformer_student_base, half as wide",
            8_683_008,
        ),
    },
    "Transformer, variations of the paper's Table 3": {
        f"transformer_base_{name}": Preset(
            "transformer_base", changes, f"Table 3, row {what}", body
        )
        for name, (what, changes, body) in _VARIATIONS.items()
    },
    "Convolutional (Gehring et al. 2017)": {
        # The paper clips gradients at 0.1 and uses Nesterov's rule. Learning rates are for Adam:
        # see README.md. The large model has the more careful one.
        "conv_seq2seq": Preset(
            None,
            {"learning_rate": 1e-3, "clip_norm": 0.1},
            "convolutions with attention in every layer of the decoder, as deep as for WMT14 En-De",
            57_195_520,
            "conv_seq2seq",
        ),
        "conv_seq2seq_small": Preset(
            "conv_seq2seq",
            {**_layers(5), "d_model": 256, "d_hidden": 256}
            | {"batch_tokens": 4_096, "learning_rate": 3e-3},
            "convolutions, as large as transformer_small",
            5_382_656,
            "conv_seq2seq",
        ),
    },
    "Recurrent (Bahdanau et al. 2015)": {
        # The gradient's norm is bounded as by Bahdanau et al. (2015), appendix B.2. Adam's values
        # and the schedule are the Transformer's.
        "rnn_attention": Preset(
            None,
            {"clip_norm": 1.0},
            "LSTMs with additive attention and input feeding, as large as transformer_base",
            44_077_568,
            "rnn_attention",
        ),
        "rnn_attention_small": Preset(
            "rnn_attention",
            {"num_encoder_layers": 2, "num_decoder_layers": 1, "d_model": 256, "d_hidden": 512}
            | {"batch_tokens": 4_096},
            "LSTMs with attention, as large as transformer_small",
            5_253_376,
            "rnn_attention",
        ),
    },
}
"""Presets by family, as `nmt models` lists them."""

PRESETS: dict[str, Preset] = {
    name: preset for family in FAMILIES.values() for name, preset in family.items()
}
"""All presets by name."""

CHOICES = {
    "transformer_tiny": "you try things out",
    "transformer_portable_few": "you have fewer than 100,000 pairs",
    "transformer_low_resource": "as few, and only CTranslate2 is to open it",
    "transformer_small": "you have up to a million pairs, or no GPU",
    "transformer_portable": "as small, and all programs must open it",
    "transformer_base": "you have millions of pairs and a GPU",
    "transformer_wmt": "as base, with time for half of its updates",
    "transformer_big": "you have tens of millions of pairs and several GPUs",
    "transformer_deep_shallow": "translation must be fast",
    "transformer_student_tiny": "a student learns from a teacher, for browsers",
}
"""The presets that people choose, by size, and when to take each."""

FINE_TUNING = "fine_tuning"
"""The name of a recipe for a model whose architecture and sizes come from the model itself."""

FINE_TUNING_VALUES: dict[str, Value] = {
    "batch_tokens": 4_096,
    "max_updates": 2_000,
    "schedule": "linear",
    "learning_rate": 1e-4,
    "warmup_updates": 100,
    "validate_every": 200,
    "save_every": 200,
}

STUDENT_VALUES: dict[str, Value] = {
    "schedule": "linear",
    "learning_rate": 2e-3,
    "warmup_updates": 500,
    "dropout": 0.1,
    "ema_decay": 0.999,
    "validate_metric": "bleu",
    "best_metric": "bleu",
}
"""What `nmt distill` changes in the preset of a student."""
_STUDENT_OF_FEW_PAIRS: dict[str, Value] = {"batch_tokens": 2_000}
_NARROW_RATE = 3e-3  # of a student that is a transformer_portable_few; see nmt/training
_TUNING_SHARE = 10  # updates of a student for each one of its tuning
_TUNING_RATE, _TUNING_WARMUP = 1e-3, 100  # at most; see examples/distill

MOST_EPOCHS = 200
"""More is hardly ever of use: twice as many as JoeyNMT's configuration for IWSLT14 has."""
_VALIDATIONS = 12
"""Of a run whose length follows its data; as many as `transformer_low_resource` has."""
_FEWEST_UPDATES = 50  # between two validations

FEW_PAIRS = 100_000
_MANY_PAIRS = 1_000_000


def preset_for(pairs: int, *, gpu: bool) -> tuple[str, str]:
    """Return the preset that fits the data and the machine, and the reason.

    pairs: in the training data.
    gpu: whether a GPU trains; below FEW_PAIRS it makes no difference.
    """
    if pairs < FEW_PAIRS:
        return "transformer_portable_few", f"the data has only {pairs:,} pairs"
    if not gpu:
        return "transformer_small", "there is no GPU to train on"
    if pairs < _MANY_PAIRS:
        return "transformer_small", f"the data has only {pairs:,} pairs"
    return "transformer_base", f"the data has {pairs:,} pairs, and there is a GPU"


def values_for_size(tokens: int, batch_tokens: int, updates: int, warmup: int) -> dict[str, Value]:
    """Return the values by which a preset does not see small data more than MOST_EPOCHS times.

    tokens: of the longer side of the training data, with eos.
    batch_tokens: of the preset, and so on.
    updates: after which training ends.
    warmup: updates in which the learning rate rises.
    """
    enough = MOST_EPOCHS * max(1, tokens // batch_tokens)
    return {} if enough >= updates else _lengths(enough, warmup)


def student_preset(pairs: int) -> str:
    """Return the preset of the student that `nmt distill` makes of so many pairs."""
    return "transformer_portable_few" if pairs < FEW_PAIRS else "transformer_portable"


def student_values(preset: str, pairs: int, updates: int) -> dict[str, Value]:
    """Return what `nmt distill` sets over a preset.

    preset: its name.
    pairs: of the teacher's training data.
    updates: after which training ends.
    """
    few = _STUDENT_OF_FEW_PAIRS if pairs < FEW_PAIRS else {}
    rate = {"learning_rate": _NARROW_RATE} if preset == "transformer_portable_few" else {}
    return STUDENT_VALUES | few | rate | _lengths(updates, int(STUDENT_VALUES["warmup_updates"]))


def tuning_values(updates: int, learning_rate: float) -> dict[str, Value]:
    """Return what tuning changes, given the updates and the rate of a student."""
    rate = min(learning_rate / 2, _TUNING_RATE)
    return _lengths(max(1, updates // _TUNING_SHARE), _TUNING_WARMUP) | {"learning_rate": rate}


def _lengths(updates: int, warmup: int) -> dict[str, Value]:
    """Return the values of a run that count its updates."""
    every = max(-(-updates // _VALIDATIONS), min(updates, _FEWEST_UPDATES))
    lengths: dict[str, Value] = {
        "max_updates": updates,
        "warmup_updates": min(warmup, max(1, updates // 3)),
    }
    return lengths | {"validate_every": every, "save_every": every}


def find_preset(name: str) -> Preset:
    """Return a preset by its name; UsageError names the nearest one."""
    if name not in PRESETS:
        raise UsageError(
            f"unknown model {name!r}{did_you_mean(name, PRESETS)} (`nmt models --all` shows them)"
        )
    return PRESETS[name]


def preset_values(name: str) -> dict[str, Value]:
    preset = find_preset(name)
    return (preset_values(preset.parent) if preset.parent else {}) | dict(preset.changes)


def body_parameters(name: str) -> int:
    """Return the parameters of a preset's model besides those of each token."""
    preset = find_preset(name)
    return body_parameters(str(preset.parent)) if preset.body is None else preset.body
