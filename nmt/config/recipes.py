"""Recipes: the values of model and training, with defaults, help and checks, read and written.

Values are resolved in one order: class default < preset < TOML file < command line. Each layer is
a flat mapping from key to value, as keys are unique over all sections. The problems of all layers
are reported at once, each with the name of its layer. This module does not import torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config.fields import Value, as_toml, checked
from nmt.config.model_config import MODEL_CONFIGS, ModelConfig
from nmt.config.training_config import AugmentConfig, TrainingConfig
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.system.files import parse_toml

Layer = tuple[str, Mapping[str, object]]
"""A layer's name, as the user knows it, and its values by key."""


@dataclass(frozen=True)
class Recipe:
    """A preset's name, and all resolved values of the model and its training."""

    preset: str
    architecture: str
    model: ModelConfig
    training: TrainingConfig
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    @property
    def sections(self) -> dict[str, Any]:
        """The values by the section of a recipe that they stand in."""
        return {"model": self.model, "training": self.training, "augment": self.augment}


def recipe_fields(*architectures: str) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of recipes by key: of these architectures, or of all."""
    models = [MODEL_CONFIGS[name] for name in architectures or MODEL_CONFIGS]
    classes = (*models, TrainingConfig, AugmentConfig)
    return {spec.name: spec for cls in classes for spec in dataclasses.fields(cls)}


GONE: Mapping[str, Value] = {"attention_window": 0, "cuda_graphs": False}
"""Keys that earlier versions had, each with its default: what `nmt` does without the key."""

_BLEU_BEFORE = "validate_bleu"  # the key for BLEU until validate_metric could name two metrics


def with_keys_of_today(values: Mapping[str, object], origin: str) -> dict[str, object]:
    """Translate the values that an earlier version wrote to a run or model file.

    Keys that are `GONE` are left out; UsageError if one does not have its default: then this
    version would do something else.
    """
    for key, default in GONE.items():
        if values.get(key, default) != default:
            raise UsageError(
                f"{origin}: {key} is {as_toml(values[key])}, which nmt no longer does; use the "
                "version that wrote the file"
            )
    today = {key: value for key, value in values.items() if key not in GONE}
    if today.pop(_BLEU_BEFORE, False):  # beside it, validate_metric was none, bleu or chrf
        today["validate_metric"] = "bleu,chrf" if today.get("validate_metric") == "chrf" else "bleu"
    return today


def resolve_recipe(preset: str, architecture: str, layers: Sequence[Layer]) -> Recipe:
    """Merge layers of values, later ones winning; UsageError names all that is wrong in any."""
    fields = recipe_fields(architecture)
    values: dict[str, Value] = {}
    problems: list[str] = []
    for origin, mapping in layers:
        for key, raw in mapping.items():
            try:
                if key in fields:
                    values[key] = checked(fields[key], raw)
                elif key == _BLEU_BEFORE:
                    raise ValueError(f"{key!r} is no longer a key; write validate_metric = bleu")
                elif key in GONE:
                    raise ValueError(f"{key!r} is no longer a key; leave it out")
                else:
                    hint = did_you_mean(key, fields) or "; `nmt models PRESET` lists all keys"
                    raise ValueError(f"unknown key {key!r}{hint}")
            except ValueError as error:
                problems.append(f"{origin}: {error}")
    model, training, augment = (
        _build(cls, values) for cls in (MODEL_CONFIGS[architecture], TrainingConfig, AugmentConfig)
    )
    if not problems:
        problems = [*model.problems(), *training.problems(), *augment.problems()]
    if problems:
        raise UsageError("; ".join(problems))
    return Recipe(preset, architecture, model, training, augment)


def model_config_from(architecture: str, values: Mapping[str, object], origin: str) -> ModelConfig:
    """Rebuild a model's configuration from a model file (DataError)."""
    if architecture not in MODEL_CONFIGS:
        raise DataError(
            f"{origin}: unknown architecture {architecture!r}"
            f"{did_you_mean(architecture, MODEL_CONFIGS)}"
        )
    try:
        layer = origin, with_keys_of_today(values, origin)
        return resolve_recipe("", architecture, [layer]).model
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


def refuse_two_values(given: Mapping[str, object], overrides: Mapping[str, object]) -> None:
    """Raise UsageError if an option and --set give a key different values."""
    specs = {spec.name: spec for spec in dataclasses.fields(TrainingConfig)}
    for key in given.keys() & overrides.keys():
        with contextlib.suppress(ValueError):  # reported with all other problems
            if checked(specs[key], given[key]) != checked(specs[key], overrides[key]):
                raise UsageError(
                    f"--{key.replace('_', '-')} {given[key]} and --set {key}={overrides[key]} "
                    "contradict each other; give one of them"
                )


def read_toml(path: Path) -> dict[str, object]:
    """Read a recipe: keys under [model], [training] and [augment], flattened.

    If there is a section [run], this is the config.toml of a run, maybe of an earlier version. The
    section does not belong to the recipe and is ignored, and old keys become those of today.
    UsageError if the file is missing, not TOML, or has unknown sections or misplaced keys.
    """
    try:
        document = parse_toml(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None
    values: dict[str, object] = {}
    is_run = document.pop("run", None) is not None
    for section, content in document.items():
        if section not in _SECTION_OF.values() or not isinstance(content, dict):
            raise UsageError(
                f"{path}: {section!r} is not a section; put keys under [model], [training] or "
                "[augment]"
            )
        if astray := sorted(key for key in content if _SECTION_OF.get(key, section) != section):
            raise UsageError(f"{path}: {', '.join(astray)}: not a key of [{section}]")
        values.update(content)
    return with_keys_of_today(values, str(path)) if is_run else values


def recorded_run(path: Path) -> dict[str, object]:
    """Return the section [run] of a file if it is a run's config.toml; else an empty one."""
    try:
        document = parse_toml(path.read_bytes())
    except (OSError, ValueError):
        return {}  # later reading reports the problem
    run = document.get("run")
    return run if isinstance(run, dict) else {}


_SECTION_OF = {
    **{spec.name: "model" for cls in MODEL_CONFIGS.values() for spec in dataclasses.fields(cls)},
    **{spec.name: "training" for spec in dataclasses.fields(TrainingConfig)},
    **{spec.name: "augment" for spec in dataclasses.fields(AugmentConfig)},
}
"""The section of each key of a recipe."""


def explanation(spec: dataclasses.Field[Any]) -> str:
    """Return the help of a recipe's field, with its choices."""
    choices = spec.metadata["choices"]
    listed = f" One of {', '.join(choices)}." if choices else ""
    return f"{spec.metadata['help']}{listed}"


def format_toml(sections: Mapping[str, object]) -> str:
    """Return dataclasses and mappings as TOML sections, each field under its explanation."""
    lines: list[str] = []
    for section, content in sections.items():
        lines.append(f"[{section}]")
        if isinstance(content, Mapping):
            lines.extend(f"{key} = {as_toml(value)}" for key, value in content.items())
        else:
            for spec in dataclasses.fields(content):  # type: ignore[arg-type]
                lines.append(f"# {explanation(spec)}")
                lines.append(f"{spec.name} = {as_toml(getattr(content, spec.name))}")
        lines.append("")
    return "\n".join(lines)
