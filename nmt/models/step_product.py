"""The product with one weight at every step of a recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt.models.linear import linear, matmul


class StepProduct:
    """x weight^T + addend, called once a step, for T steps and N rows in each.

    In training the weight's gradient is one product over all steps: taken step by step it would be
    T small products, and as many passes over the gradient to add them up.
    """

    def __init__(self, weight: Tensor, addends: Tensor) -> None:
        """Prepare the products.

        Args:
            weight: (O, I).
            addends: (T, N, O), what is known before the first step; may be expanded to that shape.
        """
        self._inputs: list[Tensor] | None = None
        self._weight = weight
        if torch.is_grad_enabled() and weight.requires_grad:
            self._inputs, self._weight = [], weight.detach()
            addends = _WithGradientOf.apply(addends, weight, self._inputs)  # type: ignore[no-untyped-call]
        self._addends = iter(addends.unbind())

    def __call__(self, x: Tensor) -> Tensor:
        """Return the next step's product of x (N, I): (N, O)."""
        if self._inputs is not None:
            self._inputs.append(x.detach())
        return linear(x, self._weight) + next(self._addends)


class _WithGradientOf(torch.autograd.Function):
    """Addends as they are; their gradient, which is that of the products, also is the weight's."""

    @staticmethod
    def forward(ctx: Any, addends: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        del weight
        ctx.inputs = inputs  # T of (N, I), by the time of the backward pass
        return addends.view_as(addends)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        products = gradients[0]  # (T, N, O)
        for_weight = matmul(products.flatten(0, 1).t(), torch.cat(ctx.inputs), "weight")  # (O, I)
        return (products if ctx.needs_input_grad[0] else None), for_weight, None
