"""Low-rank adaptation: a small trained change of each frozen matrix (LoRA; Hu et al. 2021).

A matrix W (o, i) of a layer becomes W + B A with B (o, r) and A (r, i). Only A and B are trained,
so gradient and optimiser are small. B begins as zeros, so the model begins as it was. What is saved
has the sum as its matrix. So it is a model like any other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.errors import UsageError
from nmt.models.base import TranslationModel
from nmt.models.kernels.linear import use_change
from nmt.models.packed_weights import multiplied
from nmt.models.registry import parameters_by_names
from nmt.models.transformer import Transformer

_MODULE = "low_rank"
_LAYERS = ("encoder.", "decoder.")
_DOT = "/"  # in place of the dots of a parameter's name, which a module's name may not have


class Change(nn.Module):
    """The change B A of a matrix (o, i)."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.down = nn.Parameter(torch.empty(rank, inputs))  # A
        self.up = nn.Parameter(torch.zeros(outputs, rank))  # B
        nn.init.uniform_(self.down, -(inputs**-0.5), inputs**-0.5)


def adapt(model: TranslationModel, rank: int) -> list[str]:
    """Freeze a model, and add a change of this rank to each matrix of its layers.

    Returns the names of these matrices. UsageError if the model is not a Transformer.
    """
    if not isinstance(model, Transformer):
        raise UsageError("lora_rank is for Transformers; set it to 0")
    matrices = {id(weight) for weight in multiplied(model)}
    chosen = {
        names[0]: weight
        for names, weight in parameters_by_names(model)
        if id(weight) in matrices and names[0].startswith(_LAYERS)
    }
    model.requires_grad_(False)
    changes = {name.replace(".", _DOT): Change(weight, rank) for name, weight in chosen.items()}
    model.add_module(_MODULE, nn.ModuleDict(changes))
    for change, weight in zip(changes.values(), chosen.values(), strict=True):
        use_change(weight, change.down, change.up)
    return list(chosen)


def merged(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by their names, with the changes added to their matrices."""
    matrices = {n: weight for n, weight in weights.items() if not n.startswith(f"{_MODULE}.")}
    for name, up in weights.items():
        if name.startswith(f"{_MODULE}.") and name.endswith(".up"):
            change = name.removesuffix(".up")
            matrix = change.removeprefix(f"{_MODULE}.").replace(_DOT, ".")
            matrices[matrix] = matrices[matrix].addmm(up, weights[f"{change}.down"])
    return matrices
