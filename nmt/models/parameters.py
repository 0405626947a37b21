"""The names of a model's parameters, and their counts by part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def parameters_by_names(model: nn.Module) -> list[tuple[tuple[str, ...], nn.Parameter]]:
    """Return every parameter once, with all its names. The model file uses the first."""
    names: dict[nn.Parameter, list[str]] = {parameter: [] for parameter in model.parameters()}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter].append(name)
    return [(tuple(found), parameter) for parameter, found in names.items()]


def first_few(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


def parameter_parts(model: nn.Module) -> dict[str, dict[str, int]]:
    """Count a model's parameters by part and, within each, by kind of sub-layer.

    The part is the first component of the name. The kind is the next one that is neither a list nor
    an index, so that layers are summed: `encoder.3.attention.qkv` belongs to the encoder's
    `attention`. Parameters of normalisation layers have the kind `norms`. A tied parameter is
    counted once, as its own part under all its names.
    """
    parts: dict[str, dict[str, int]] = {}
    for names, parameter in parameters_by_names(model):
        first = names[0]
        part = f"{' = '.join(names)}, tied" if len(names) > 1 else first.partition(".")[0]
        kind = _kind(model, first)
        kinds = parts.setdefault(part, {})
        kinds[kind] = kinds.get(kind, 0) + parameter.numel()
    return parts


def _kind(model: nn.Module, name: str) -> str:
    if isinstance(model.get_submodule(name.rpartition(".")[0]), _NORMS):
        return "norms"
    path = [*name.split("."), ""]
    below = (own for own, after in pairwise(path[1:]) if not own.isdigit() and not after.isdigit())
    return next(below, path[0])
