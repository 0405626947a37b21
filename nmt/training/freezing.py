"""Freezing: which parameters training leaves as they are, for fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from nmt.errors import UsageError, did_you_mean
from nmt.models.contract import TranslationModel
from nmt.models.tied import parameters_by_names


def freeze(model: TranslationModel, patterns: str) -> list[str]:
    """Let the parameters whose names fit a pattern need no gradient.

    Args:
        model: its parameters all need gradients.
        patterns: globs over names, with commas between them; "" freezes nothing. A tied parameter
            goes by each of its names.

    Returns:
        The frozen parameters' names, tied names of one joined by ` = `.

    Raises:
        UsageError: if a pattern fits no name, or nothing is left to train.
    """
    if not patterns:
        return []
    globs = [glob.strip() for glob in patterns.split(",")]
    parameters = parameters_by_names(model)
    every = [name for names, _ in parameters for name in names]
    for glob in globs:
        if not _fits(every, [glob]):
            raise UsageError(
                f"freeze: no parameter fits {glob!r}{did_you_mean(glob, _groups_of(every))}"
            )
    chosen = [(names, parameter) for names, parameter in parameters if _fits(names, globs)]
    if len(chosen) == len(parameters):
        raise UsageError(f"freeze: {patterns!r} fits every parameter, and nothing is left to train")
    for _, parameter in chosen:
        parameter.requires_grad_(False)
    return [" = ".join(names) for names, _ in chosen]


def _fits(names: Iterable[str], globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _groups_of(names: list[str]) -> set[str]:
    """Return `encoder.*`, `encoder.0.*` and so on: patterns that fit."""
    prefixes = {(name, ".".join(name.split(".")[:depth])) for name in names for depth in (1, 2)}
    return {prefix if prefix == name else f"{prefix}.*" for name, prefix in prefixes}
