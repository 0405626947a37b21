"""Presets: named recipes, each its parent plus the values that differ.

A named preset is frozen, because published results depend on it. Rows of Table 3 are named after
the option of base that differs and its value, as `--set` takes it.

The paper's own results are at the end: Table 3 of "Attention Is All You Need" (Vaswani et al.
2017), English to German, measured on newstest2013 without averaging checkpoints, with perplexity
per subword and tokenised BLEU. Nothing here computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nmt.errors import UsageError, did_you_mean
from nmt.values import Value


@dataclass(frozen=True)
class Preset:
    """A named recipe: the values of its parent, or else the class defaults, plus `changes`."""

    architecture: str
    parent: str | None
    changes: Mapping[str, Value]
    summary: str


def _variation(row: str, what: str, changes: Mapping[str, Value]) -> Preset:
    return Preset("transformer", "transformer_base", changes, f"Table 3, row {row}: {what}")


FAMILIES: dict[str, dict[str, Preset]] = {
    "Transformer": {
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
            "the paper's big model",
        ),
        "transformer_big_en_fr": Preset(
            "transformer",
            "transformer_big",
            {"dropout": 0.1},
            "the paper's big model for English to French",
        ),
        "transformer_small": Preset(
            "transformer",
            "transformer_base",
            {"num_encoder_layers": 3, "num_decoder_layers": 3, "d_model": 256, "d_ff": 1024}
            | {"num_heads": 4, "batch_tokens": 4_096},
            "for some ten thousand to a million pairs, or a CPU",
        ),
        # Its values were found on the 29,000 pairs of Multi30k: see examples/multi30k/README.md.
        "transformer_low_resource": Preset(
            "transformer",
            "transformer_small",
            {
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
            "for some ten thousand pairs: more dropout, small updates, a short schedule, averaged "
            "weights",
        ),
        "transformer_tiny": Preset(
            "transformer",
            "transformer_small",
            {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 128, "d_ff": 512},
            "for tests and toy languages",
        ),
    },
    "Transformer, later variants": {
        "transformer_modern": Preset(
            "transformer",
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
        ),
        "transformer_modern_small": Preset(
            "transformer",
            "transformer_modern",
            {"num_encoder_layers": 3, "num_decoder_layers": 3, "d_model": 256, "d_ff": 688}
            | {"num_heads": 4, "batch_tokens": 4_096},
            "the same at the size of transformer_small",
        ),
        "transformer_deep_shallow": Preset(
            "transformer",
            "transformer_modern",
            {"num_encoder_layers": 12, "num_decoder_layers": 2, "positions": "sinusoidal"},
            "12 layers in the encoder, which runs once a sentence, and 2 in the decoder "
            "(Kasai et al. 2021); modern ones, since post-norm learns late with so few",
        ),
        "transformer_relative": Preset(
            "transformer",
            "transformer_base",
            {"positions": "relative"},
            "base with relative positions, k = 16 (Shaw et al. 2018)",
        ),
        "transformer_local": Preset(
            "transformer",
            "transformer_base",
            {"attention_window": 128},
            "base whose self-attention sees 128 tokens to each side: for documents of thousands",
        ),
    },
    "Transformer, variations of the paper's Table 3": {
        "transformer_base_heads1": _variation("A", "1 head", {"num_heads": 1}),
        "transformer_base_heads4": _variation("A", "4 heads", {"num_heads": 4}),
        "transformer_base_heads16": _variation("A", "16 heads", {"num_heads": 16}),
        "transformer_base_heads32": _variation("A", "32 heads", {"num_heads": 32}),
        "transformer_base_dk16": _variation("B", "queries and keys 16 wide", {"d_k": 16}),
        "transformer_base_dk32": _variation("B", "queries and keys 32 wide", {"d_k": 32}),
        "transformer_base_layers2": _variation(
            "C", "2 layers a side", {"num_encoder_layers": 2, "num_decoder_layers": 2}
        ),
        "transformer_base_layers4": _variation(
            "C", "4 layers a side", {"num_encoder_layers": 4, "num_decoder_layers": 4}
        ),
        "transformer_base_layers8": _variation(
            "C", "8 layers a side", {"num_encoder_layers": 8, "num_decoder_layers": 8}
        ),
        "transformer_base_dmodel256": _variation("C", "narrower", {"d_model": 256}),
        "transformer_base_dmodel1024": _variation("C", "wider", {"d_model": 1024}),
        "transformer_base_dff1024": _variation("C", "narrower feed-forward", {"d_ff": 1024}),
        "transformer_base_dff4096": _variation("C", "wider feed-forward", {"d_ff": 4096}),
        "transformer_base_dropout0": _variation("D", "no dropout", {"dropout": 0.0}),
        "transformer_base_dropout0.2": _variation("D", "more dropout", {"dropout": 0.2}),
        "transformer_base_smoothing0": _variation(
            "D", "no label smoothing", {"label_smoothing": 0.0}
        ),
        "transformer_base_smoothing0.2": _variation(
            "D", "more label smoothing", {"label_smoothing": 0.2}
        ),
        "transformer_base_learned_positions": _variation(
            "E", "learned positions", {"positions": "learned"}
        ),
    },
    "Convolutional (Gehring et al. 2017)": {
        # The paper clips gradients at 0.1 and steps by Nesterov's rule. Learning rates for Adam
        # were chosen on Multi30k, by the loss of updates 101 to 125 of 1,000 tokens: the small
        # model's is 5.18 with a peak of 0.001, 4.64 with 0.003, 4.58 if that is clipped at 0.1 too,
        # and 4.37 with 0.006, which long runs may not bear. 15 layers of 128 also learn sooner with
        # 0.003 than with 0.001; 512 wide, they have the more careful one.
        "conv_seq2seq": Preset(
            "conv_seq2seq",
            None,
            {"learning_rate": 1e-3, "clip_norm": 0.1},
            "convolutions with attention in every layer of the decoder, as deep as for WMT14 En-De",
        ),
        "conv_seq2seq_small": Preset(
            "conv_seq2seq",
            "conv_seq2seq",
            {"num_encoder_layers": 5, "num_decoder_layers": 5, "d_model": 256, "d_hidden": 256}
            | {"batch_tokens": 4_096, "learning_rate": 3e-3},
            "the same, as large as transformer_small",
        ),
    },
    "Recurrent (Bahdanau et al. 2015)": {
        # The gradient's norm is bounded as by Bahdanau et al. (2015), appendix B.2. Adam's values
        # and the schedule are the Transformer's; they leave room: on 2,000 pairs of Multi30k the
        # small model's training perplexity fell from 1,292 to 50 in 60 updates of a warm-up to
        # 0.008, eight times the peak, with gradients of 0.3 to 0.7.
        "rnn_attention": Preset(
            "rnn_attention",
            None,
            {"clip_norm": 1.0},
            "LSTMs with additive attention and input feeding, as large as transformer_base",
        ),
        "rnn_attention_small": Preset(
            "rnn_attention",
            "rnn_attention",
            {"num_encoder_layers": 2, "num_decoder_layers": 1, "d_model": 256, "d_hidden": 512}
            | {"batch_tokens": 4_096},
            "the same, as large as transformer_small",
        ),
    },
}
"""Presets by family, as `nmt models` lists them."""

PRESETS: dict[str, Preset] = {
    name: preset for family in FAMILIES.values() for name, preset in family.items()
}
"""All presets by name."""

BODY_PARAMETERS = {
    "transformer_base": 44_101_632,
    "transformer_big": 176_283_648,
    "transformer_big_en_fr": 176_283_648,
    "transformer_small": 5_520_384,
    "transformer_low_resource": 5_520_384,
    "transformer_tiny": 922_624,
    "transformer_modern": 44_105_728,
    "transformer_modern_small": 5_533_952,
    "transformer_deep_shallow": 46_211_072,
    "transformer_relative": 44_152_320,
    "transformer_local": 44_101_632,
    "transformer_base_heads1": 44_101_632,
    "transformer_base_heads4": 44_101_632,
    "transformer_base_heads16": 44_101_632,
    "transformer_base_heads32": 44_101_632,
    "transformer_base_dk16": 37_023_744,
    "transformer_base_dk32": 39_383_040,
    "transformer_base_layers2": 14_700_544,
    "transformer_base_layers4": 29_401_088,
    "transformer_base_layers8": 58_802_176,
    "transformer_base_dmodel256": 17_344_512,
    "transformer_base_dmodel1024": 125_927_424,
    "transformer_base_dff1024": 31_506_432,
    "transformer_base_dff4096": 69_292_032,
    "transformer_base_dropout0": 44_101_632,
    "transformer_base_dropout0.2": 44_101_632,
    "transformer_base_smoothing0": 44_101_632,
    "transformer_base_smoothing0.2": 44_101_632,
    "transformer_base_learned_positions": 45_150_208,
    "conv_seq2seq": 57_195_520,
    "conv_seq2seq_small": 5_382_656,
    "rnn_attention": 44_077_568,
    "rnn_attention_small": 5_253_376,
}
"""Parameters of a preset's model besides its tokens' vectors, d_model for each token: counted here,
since building models to count them takes torch, and that takes seconds."""

FEW_PAIRS = 100_000
_MANY_PAIRS = 1_000_000


def preset_for(pairs: int, *, gpu: bool) -> tuple[str, str]:
    """Return the preset that fits the data and the machine, and the reason.

    Args:
        pairs: in the training data.
        gpu: whether a GPU trains; below FEW_PAIRS it makes no difference.
    """
    if pairs < FEW_PAIRS:
        return "transformer_low_resource", f"the data has only {pairs:,} pairs"
    if not gpu:
        return "transformer_small", "there is no GPU to train on"
    if pairs < _MANY_PAIRS:
        return "transformer_small", f"the data has only {pairs:,} pairs"
    return "transformer_base", f"the data has {pairs:,} pairs, and there is a GPU"


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        UsageError: naming the nearest preset.
    """
    if name not in PRESETS:
        raise UsageError(f"unknown model {name!r}{did_you_mean(name, PRESETS)}")
    return PRESETS[name]


def preset_values(name: str) -> dict[str, Value]:
    """Return the values that a preset and its ancestors set."""
    preset = find_preset(name)
    inherited = preset_values(preset.parent) if preset.parent else {}
    return inherited | dict(preset.changes)


@dataclass(frozen=True)
class PaperResult:
    """A row of Table 3."""

    row: str
    perplexity: float
    bleu: float
    parameters: int = 65
    """In millions. Rows without a number in the table have those of the base model."""


TABLE_3: dict[str, PaperResult] = {
    "transformer_base": PaperResult("base", 4.92, 25.8),
    "transformer_base_heads1": PaperResult("A", 5.29, 24.9),
    "transformer_base_heads4": PaperResult("A", 5.00, 25.5),
    "transformer_base_heads16": PaperResult("A", 4.91, 25.8),
    "transformer_base_heads32": PaperResult("A", 5.01, 25.4),
    "transformer_base_dk16": PaperResult("B", 5.16, 25.1, 58),
    "transformer_base_dk32": PaperResult("B", 5.01, 25.4, 60),
    "transformer_base_layers2": PaperResult("C", 6.11, 23.7, 36),
    "transformer_base_layers4": PaperResult("C", 5.19, 25.3, 50),
    "transformer_base_layers8": PaperResult("C", 4.88, 25.5, 80),
    "transformer_base_dmodel256": PaperResult("C", 5.75, 24.5, 28),
    "transformer_base_dmodel1024": PaperResult("C", 4.66, 26.0, 168),
    "transformer_base_dff1024": PaperResult("C", 5.12, 25.4, 53),
    "transformer_base_dff4096": PaperResult("C", 4.75, 26.2, 90),
    "transformer_base_dropout0": PaperResult("D", 5.77, 24.6),
    "transformer_base_dropout0.2": PaperResult("D", 4.95, 25.5),
    "transformer_base_smoothing0": PaperResult("D", 4.67, 25.3),
    "transformer_base_smoothing0.2": PaperResult("D", 5.47, 25.7),
    "transformer_base_learned_positions": PaperResult("E", 4.92, 25.7),
    "transformer_big": PaperResult("big", 4.33, 26.4, 213),
}
"""By preset of the row."""
