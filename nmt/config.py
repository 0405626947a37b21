"""Every value that a recipe can set: its default, what it means, and what it may be.

Values are resolved in one order: class default < preset < TOML file < command line. Each layer is
a flat mapping from key to value (keys are unique over all sections), so a layer is the same thing
wherever it comes from. All problems of all layers are reported at once, each with the layer that
holds it. This module knows nothing of torch.

Recipes as people write them, TOML and key=value, and back to TOML.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import DataError, UsageError, did_you_mean
from nmt.model_config import MODEL_CONFIGS, ModelConfig, Value, checked, value

Layer = tuple[str, Mapping[str, object]]
"""Where values come from, as the user knows it, and the values by key."""


_MATMUL = re.compile(r"auto|torch|onednn(:(forward|input|weight)(,(forward|input|weight))*)?")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained; defaults are the paper's (sections 5.1 to 5.4)."""

    seed: int = value(1, "Seed of initial weights, data order and dropout.", minimum=0)
    batch_tokens: int = value(
        25_000,
        "Target tokens of one update, over all ranks and micro-batches; the source side obeys "
        "the same bound.",
        minimum=1,
    )
    micro_batch_tokens: int = value(
        0,
        "Tokens of one forward pass on either side: a matter of memory that never changes which "
        "pairs make up an update. 0: as many as fit, up to 2048 on a CPU "
        "(4096 in bf16 and fp16) and a process's share of the update on a GPU; halved when memory "
        "runs out.",
        minimum=0,
        resumable=True,
    )
    max_updates: int = value(
        100_000,
        "Updates after which training ends. A finished run may go on with more: linear and cosine, "
        "which end at 0 there, then rise at once to where the longer schedule is.",
        minimum=1,
        resumable=True,
    )
    patience: int = value(
        0,
        "Validations in a row without a better result after which training ends; 0: never.",
        minimum=0,
        resumable=True,
    )
    precision: str = value(
        "fp32",
        "Type of weights and activations in the forward and backward pass; the optimiser keeps "
        "an fp32 master copy of the weights.",
        choices=("fp32", "bf16", "fp16"),
    )
    device: str = value(
        "auto",
        "Where to compute; auto: a GPU if there is one.",
        choices=("auto", "cpu", "cuda"),
        resumable=True,
    )
    threads: int = value(
        0,
        "CPU threads of each process; 0: the cores divided by the processes, at most "
        "OMP_NUM_THREADS, kept when as many processes go on.",
        minimum=0,
        maximum=1_024,
        resumable=True,
    )
    compile: bool = value(
        False,
        "Whether torch.compile makes the model's forward and backward pass, which takes some "
        "minutes at the start; meant for GPUs.",
    )
    matmul: str = value(
        "auto",
        "Library of fp32 matrix products on CPUs: torch, onednn, or auto for the faster one of "
        "each kind of product, found by timing and kept when the run goes on. "
        "onednn:forward,weight leaves the kind input to torch, and so on.",
    )
    label_smoothing: float = value(
        0.1, "Share of probability spread evenly over the vocabulary.", minimum=0.0, below=1.0
    )
    subword_dropout: float = value(
        0.0,
        "BPE dropout: chance that a merge of a token is undone, anew in each epoch. It makes "
        "sentences longer than batch_tokens counts.",
        minimum=0.0,
        below=1.0,
    )
    schedule: str = value(
        "inverse_sqrt",
        "Learning rate after linear warm-up: falling with the inverse square root of the update "
        "(the paper's), to 0 at max_updates linearly or as half a cosine, or constant.",
        choices=("inverse_sqrt", "linear", "cosine", "constant"),
    )
    learning_rate: float = value(
        0.0,
        "Peak learning rate, reached at the end of the warm-up; 0: the paper's, "
        "(d_model * warmup_updates)^-0.5.",
        minimum=0.0,
    )
    warmup_updates: int = value(4_000, "Updates of linear warm-up.", minimum=1)
    adam_beta1: float = value(0.9, "Adam's decay of the mean gradient.", minimum=0.0, below=1.0)
    adam_beta2: float = value(0.98, "Adam's decay of the mean square.", minimum=0.0, below=1.0)
    adam_epsilon: float = value(1e-9, "Adam's epsilon.", minimum=0.0)
    clip_norm: float = value(
        0.0, "Largest norm of an update's gradient; 0: no clipping.", minimum=0.0
    )
    ema_decay: float = value(
        0.0,
        "Decay of an exponential moving average of the weights, which is then what is "
        "validated and kept; 0: none.",
        minimum=0.0,
        below=1.0,
    )
    freeze: str = value(
        "",
        "Which weights do not change: patterns over their names with commas between, such as "
        "encoder.*,src_embedding.*; a tied weight goes by each of its names.",
    )
    log_every: int = value(
        100, "Updates between two lines of the log and of metrics.jsonl.", minimum=1, resumable=True
    )
    validate_every: int = value(
        1_000, "Updates between two validations.", minimum=1, resumable=True
    )
    validate_bleu: bool = value(
        False, "Whether validation also translates the valid text by beam search and scores BLEU."
    )
    sample_translations: int = value(
        3,
        "Lines of the valid text whose translations every validation shows; 0: none.",
        minimum=0,
        resumable=True,
    )
    best_metric: str = value(
        "loss",
        "What the best checkpoints are best by: smoothed valid loss, or BLEU (needs "
        "validate_bleu).",
        choices=("loss", "bleu"),
    )
    save_every: int = value(
        1_500, "Updates between two checkpoints, which averaging uses.", minimum=1, resumable=True
    )
    save_minutes: float = value(
        15.0,
        "Minutes between two safety saves of the training state, which are never averaged.",
        minimum=0.1,
        resumable=True,
    )
    keep_last: int = value(5, "Newest checkpoints kept.", minimum=1, resumable=True)
    keep_best: int = value(1, "Best checkpoints kept.", minimum=1, resumable=True)
    tensorboard: bool = value(
        False,
        "Whether to write all figures for TensorBoard too (needs the extra tensorboard).",
        resumable=True,
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        found = []
        if not _MATMUL.fullmatch(self.matmul):
            found.append(f"matmul cannot be {self.matmul!r}: give auto, torch or onednn")
        if self.best_metric == "bleu" and not self.validate_bleu:
            found.append("best_metric 'bleu' needs validate_bleu = true")
        return found


@dataclass(frozen=True)
class Recipe:
    """A preset's name, and all values of the model and of its training, resolved."""

    preset: str
    architecture: str
    model: ModelConfig
    training: TrainingConfig


def resolve_recipe(preset: str, architecture: str, layers: Sequence[Layer]) -> Recipe:
    """Merge layers of values, later ones winning, and check the result.

    Raises:
        UsageError: naming every unknown key, wrong type and bad value of all layers at once.
    """
    model_class = MODEL_CONFIGS[architecture]
    fields = {f.name: f for cls in (model_class, TrainingConfig) for f in dataclasses.fields(cls)}
    values: dict[str, Value] = {}
    problems: list[str] = []
    for origin, mapping in layers:
        for key, raw in mapping.items():
            if key not in fields:
                problems.append(f"{origin}: unknown key {key!r}{did_you_mean(key, fields)}")
                continue
            try:
                values[key] = checked(fields[key], raw)
            except ValueError as error:
                problems.append(f"{origin}: {error}")
    model = _build(model_class, values)
    training = _build(TrainingConfig, values)
    if not problems:
        problems = [*model.problems(), *training.problems()]
    if problems:
        raise UsageError("; ".join(problems))
    return Recipe(preset, architecture, model, training)


def model_config_from(architecture: str, values: Mapping[str, object], origin: str) -> ModelConfig:
    """Rebuild a model's configuration from a model file.

    Raises:
        DataError: if the architecture or a value is not one that this version knows.
    """
    if architecture not in MODEL_CONFIGS:
        raise DataError(
            f"{origin}: unknown architecture {architecture!r}"
            f"{did_you_mean(architecture, MODEL_CONFIGS)}"
        )
    try:
        return resolve_recipe("", architecture, [(origin, values)]).model
    except UsageError as error:
        raise DataError(str(error)) from error


def _build(cls: Any, values: Mapping[str, Value]) -> Any:
    return cls(**{f.name: values[f.name] for f in dataclasses.fields(cls) if f.name in values})


def resumable_keys() -> frozenset[str]:
    """Return the keys whose values may change when a run is resumed."""
    return frozenset(
        spec.name for spec in dataclasses.fields(TrainingConfig) if spec.metadata["resumable"]
    )


def parse_overrides(assignments: Sequence[str]) -> dict[str, object]:
    """Split the `key=value` strings of `--set`."""
    values: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {assignment!r} is not of the form key=value")
        values[key.strip()] = value.strip()
    return values


def read_toml(path: Path) -> dict[str, object]:
    """Read a recipe: keys under [model] and [training], flattened.

    [run], where a run folder's config.toml tells what is no recipe's matter, is passed over.

    Raises:
        UsageError: if the file is missing, no TOML, or has other sections or keys in the wrong one.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None
    values: dict[str, object] = {}
    document.pop("run", None)
    for section, content in document.items():
        if section not in ("model", "training") or not isinstance(content, dict):
            raise UsageError(
                f"{path}: {section!r} is not a section; keys stand under [model] or [training]"
            )
        astray = sorted(content.keys() & _keys("training" if section == "model" else "model"))
        if astray:
            raise UsageError(f"{path}: {', '.join(astray)}: not a key of [{section}]")
        values.update(content)
    return values


def noted_preset(path: Path) -> str:
    """Return the preset that a run folder's config.toml notes; nothing without such a file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return ""  # whoever needs the file says what is wrong with it
    run = document.get("run")
    return str(run.get("preset", "")) if isinstance(run, dict) else ""


def _keys(section: str) -> set[str]:
    classes = MODEL_CONFIGS.values() if section == "model" else (TrainingConfig,)
    return {spec.name for cls in classes for spec in dataclasses.fields(cls)}


def explanation(spec: dataclasses.Field[Any]) -> str:
    """Return what a field of a recipe is, and which values it may have if they have names."""
    choices = spec.metadata["choices"]
    listed = f" One of {', '.join(choices)}." if choices else ""
    return f"{spec.metadata['help']}{listed}"


def format_toml(sections: Mapping[str, object]) -> str:
    """Write dataclasses and mappings as TOML sections, each field under its own explanation."""
    lines: list[str] = []
    for section, content in sections.items():
        lines.append(f"[{section}]")
        if isinstance(content, Mapping):
            lines.extend(f"{key} = {json.dumps(value)}" for key, value in content.items())
        else:
            for spec in dataclasses.fields(content):  # type: ignore[arg-type]
                lines.append(f"# {explanation(spec)}")
                lines.append(f"{spec.name} = {json.dumps(getattr(content, spec.name))}")
        lines.append("")
    return "\n".join(lines)
