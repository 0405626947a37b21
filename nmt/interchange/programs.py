"""The programs that open exports, and which models each can be, by a model's values.

Loads no torch, so that `nmt models` and the first lines of `nmt train` say it at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt.config.fields import Value
from nmt.config.model_config import MODEL_CONFIGS, ModelConfig, TransformerConfig

DISTILL = "nmt distill RUN --out STUDENT"
"""The command that makes a model that every program opens from a run of any preset."""
MARIAN_EPSILON = 1e-6
"""What Marian adds in norms."""
FIRST_POSITION = 2
"""Of M2M100, after those that fairseq keeps for padding."""

_NARROW = 128  # d_model of transformer_portable_few
_Values = Mapping[str, tuple[Value, ...] | None]
_ANY_SIZE: _Values = dict.fromkeys(
    "num_encoder_layers num_decoder_layers d_model d_ff num_heads dropout tie_embeddings "
    "attention_bias output_bias max_positions max_relative_distance".split()
)
"""The last two are for kinds of positions that name them."""
_ACTIVATIONS = ("relu", "swish", "gelu")


def portable_preset(config: ModelConfig) -> str:
    """Return the preset that every program opens, of about the width of a model."""
    return "transformer_portable_few" if config.d_model <= _NARROW else "transformer_portable"


class Form(NamedTuple):
    """The Transformers that a program can be."""

    name: str
    """Of the program, or of its class."""
    values: _Values
    """By key those that it can be, the usual one first; None: any. Others must be the default."""
    width: int = 1
    """What widths must be multiples of."""
    only_holds_pre_norm: bool = False
    """Whether it can be a pre-norm model, but does not translate with it as the model scores."""

    def changes(self, config: TransformerConfig) -> dict[str, Value]:
        """Return the values that a model needs instead of its own to be one of these."""
        changes = dict[str, Value]()
        for spec in dataclasses.fields(config):
            value: Any = getattr(config, spec.name)
            values: Any = self.values.get(spec.name, (spec.default,))
            if values is not None and value not in values:
                changes[spec.name] = values[0]
            elif spec.name in ("d_model", "d_ff") and value % self.width:
                heads = config.num_heads if spec.name == "d_model" else 1
                step = math.lcm(self.width, heads)
                changes[spec.name] = -(-value // step) * step
        return changes

    def advice(self, config: ModelConfig) -> str | None:
        """Return the options with which `nmt train` makes one of these; None if a model is one.

        A pre-norm model that is to be a post-norm one needs another learning rate, and so a preset.
        """
        if not isinstance(config, TransformerConfig):
            return f"--model {portable_preset(config)}"
        changes = self.changes(config)
        if not changes:
            return None
        if changes.get("pre_norm") is False or (self.only_holds_pre_norm and config.pre_norm):
            return f"--model {portable_preset(config)}"
        values = {key: str(value).lower() for key, value in changes.items()}
        return " ".join(f"--set {key}={value}" for key, value in values.items())

    def fault(self, config: ModelConfig) -> str | None:
        """Return what is in the way of a model, and how to train one that fits; None if it fits."""
        advice = self.advice(config)
        if advice is None:
            return None
        if not isinstance(config, TransformerConfig):
            (own,) = (name for name, kind in MODEL_CONFIGS.items() if kind is type(config))
            return (
                f"{self.name} cannot be of architecture {own}; train with {advice}, or make a "
                f"student: {DISTILL}"
            )
        wrong = ", ".join(f"{key}={getattr(config, key)}" for key in self.changes(config))
        preset = f"--model {portable_preset(config)}"
        others = "" if advice == preset or self is M2M100 else f", or with {preset}"
        student = "" if self is M2M100 else f", or make a student: {DISTILL}"
        return f"{self.name} cannot have {wrong}; train with {advice}{others}{student}"


CTRANSLATE2 = Form(
    "CTranslate2",
    {
        **_ANY_SIZE,
        **dict.fromkeys("pre_norm norm_epsilon first_input first_position source_end".split()),
        "norm": ("layer", "rms"),
        "feed_forward": (*_ACTIVATIONS, "swiglu"),
        "positions": ("sinusoidal", "sinusoidal_halves", "learned", "rotary"),
    },
)
MARIAN_MT = Form(
    "MarianMTModel",
    {
        **_ANY_SIZE,
        "feed_forward": _ACTIVATIONS,
        "positions": ("sinusoidal", "sinusoidal_halves"),
        "norm_epsilon": (0.0, 1e-5, MARIAN_EPSILON),
        "first_input": None,
    },
)
M2M100 = Form(
    "M2M100ForConditionalGeneration",
    {
        **_ANY_SIZE,
        "pre_norm": (True,),
        "feed_forward": _ACTIVATIONS,
        "positions": ("sinusoidal_halves",),
        "first_position": (FIRST_POSITION,),
        "first_input": ("eos",),
        "norm_epsilon": (0.0, 1e-5),
        "tie_embeddings": ("all",),
    },
)
MARIAN = Form(
    "Marian",
    {
        **_ANY_SIZE,
        "pre_norm": None,
        "decoder_memory": None,
        "feed_forward": _ACTIVATIONS,
        "positions": ("sinusoidal_halves",),
        "norm_epsilon": (MARIAN_EPSILON, 0.0, 1e-5),
        "first_input": ("zeros",),
    },
    only_holds_pre_norm=True,  # see nmt/interchange/README.md
)
BERGAMOT = Form(
    "Bergamot",
    {
        **MARIAN.values,
        "pre_norm": (False,),  # its decoder computes something else than Marian trains and scores
        "tie_embeddings": ("decoder", "all"),
    },
    width=64,
)


class Program(NamedTuple):
    """A program that opens exports."""

    name: str
    forms: tuple[Form, ...]
    """The first is that of models for one pair."""


PROGRAMS = {
    "ctranslate2": Program("CTranslate2", (CTRANSLATE2,)),
    "huggingface": Program("transformers", (MARIAN_MT, M2M100)),
    "marian": Program("Marian", (MARIAN,)),
    "bergamot": Program("Bergamot", (BERGAMOT,)),
    "argos": Program("Argos", (CTRANSLATE2,)),
}
"""By the format of `nmt export`."""


def needs(config: ModelConfig) -> dict[str, str | None]:
    """Return by program the options of `nmt train` that open it; None: it opens such a model."""
    needed = dict[str, str | None]()
    for program in PROGRAMS.values():
        advices = [form.advice(config) for form in program.forms]
        needed[program.name] = None if None in advices else advices[0]
    return needed


def opens_in(config: ModelConfig) -> str:
    """Return the names of the programs that open a model."""
    return ", ".join(name for name, advice in needs(config).items() if advice is None) or "none"


def opening(config: ModelConfig, *, is_chosen: bool) -> str:
    """Return in a sentence what opens a model with these values, and what opens in all.

    is_chosen: whether the user has chosen the model, and so needs no other advice.
    """
    opened = f"the model will open in {opens_in(config)}"
    if is_chosen or not any(needs(config).values()):
        return opened
    return (
        f"{opened}; for all {len(PROGRAMS)} programs of `nmt export`, take "
        f"--model {portable_preset(config)}, or make a student of the finished run: {DISTILL}"
    )
