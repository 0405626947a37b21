"""Recipes as people write them, TOML and key=value, and back to TOML."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config import TrainingConfig
from nmt.errors import UsageError
from nmt.model_config import MODEL_CONFIGS


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
