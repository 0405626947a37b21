"""All names of a model's parameters: a tied one has several, and `named_parameters` lists one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def parameters_by_names(model: nn.Module) -> list[tuple[tuple[str, ...], nn.Parameter]]:
    """Return every parameter once, with its names, first the one that a model file uses."""
    names: dict[nn.Parameter, list[str]] = {parameter: [] for parameter in model.parameters()}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter].append(name)
    return [(tuple(found), parameter) for parameter, found in names.items()]


def first_few(names: Sequence[str]) -> str:
    """Return some of many names, and how many more there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
