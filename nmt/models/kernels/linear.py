"""Matrix products of linear layers, by the faster of the CPU's two libraries.

torch uses MKL for fp32 products, which does not use AVX-512 on AMD CPUs. There oneDNN, also part of
torch, is twice as fast. On other CPUs it is about as fast. So a run times both as it starts, and
the recipe's `matmul` records the choice. oneDNN's operator is private to torch. If it is missing or
gives other results, torch's default stays. Models that only translate may pack their weights
(`nmt.models.packed_weights`).

oneDNN builds a primitive for each shape of a product, of 0.6 MB or more each, and keeps the newest
(see `program.prepare_libraries`). So its products take few numbers of rows (`in_few_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class _Switches:
    """Flags, because torch.compile handles them better than a dictionary or set."""

    onednn: bool = False  # whether oneDNN computes fp32 products on CPUs
    any_packed: bool = False
    any_changed: bool = False


_switches = _Switches()

Product = Callable[[Tensor, Tensor | None], Tensor]
"""Maps x (..., i) and a bias (o,) to x weight^T + bias, with its own weight."""

_PACKED, _CHANGE = "packed_product", "change"
"""The attributes of weights that hold their `Product`, and the factors of a change."""


def use_library(name: str) -> None:
    """Compute this process's fp32 products on CPUs by `torch` or by `onednn`."""
    _switches.onednn = name == "onednn"


def use_packed(weight: Tensor, product: Product) -> None:
    """Compute all products with this weight by `product` from now on."""
    setattr(weight, _PACKED, product)
    _switches.any_packed = True


def use_change(weight: Tensor, down: Tensor, up: Tensor) -> None:
    """Multiply by weight (o, i) + up (o, r) down (r, i) instead of `weight` from now on."""
    setattr(weight, _CHANGE, (down, up))
    _switches.any_changed = True


def in_few_sizes(product: Product) -> Product:
    """Return a product that takes few numbers of rows in search and validation.

    These are 16, 32, 48, 64, 96, 128, 192, 256, 384 and so on, and rows of zeros fill up to the
    next one: 5 rows become 16, and 700 become 768. Training has few numbers of rows, since its
    batches do (see `padding_to_multiples`).
    """

    def filled_up(x: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (n, i)
        count = len(rows)
        if not torch.is_grad_enabled():
            # Half of the power of two below: 256 for 700 rows.
            step = max(16, 1 << max(0, (count - 1).bit_length() - 2))
            rows = F.pad(rows, (0, 0, 0, -count % step)) if count % step else rows
        multiplied = product(rows, bias)[:count]  # (n, o)
        return multiplied.view(*x.shape[:-1], multiplied.shape[-1])

    return filled_up


def _is_by_onednn(x: Tensor) -> bool:
    return _switches.onednn and x.dtype == torch.float32 and x.device.type == "cpu"


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (n, i) weight^T (i, o) + bias on a CPU.

    AttributeError if this torch has no such operator. RuntimeError if this processor has none for
    the type.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a (n, m) b (m, k), without a gradient."""
    return onednn_product(a, b.t()) if _is_by_onednn(a) else a @ b


def batched_type(x: Tensor) -> torch.dtype:
    """Return the type for batched products of tensors like x: on a CPU fp32 at least.

    There half types are no faster for the matrices of attention. Each step of search has another
    shape, of which oneDNN would keep a primitive.
    """
    return x.dtype if x.is_cuda else torch.promote_types(x.dtype, torch.float32)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (..., i) weight (o, i)^T + bias (o,): (..., o)."""
    if _switches.any_packed:
        packed: Product | None = getattr(weight, _PACKED, None)
        if packed is not None:
            return packed(x, bias)
    if _switches.any_changed:
        change: tuple[Tensor, Tensor] | None = getattr(weight, _CHANGE, None)
        if change is not None:
            down, up = change
            return _product(x, weight, bias) + _product(_product(x, down), up)
    return _product(x, weight, bias)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return max(0, linear(x, weight, bias)): (..., o); on a GPU, in one kernel."""
    if not x.is_cuda or (_switches.any_changed and hasattr(weight, _CHANGE)):
        return F.relu_(linear(x, weight, bias))
    rows = x.reshape(-1, x.shape[-1])  # (n, i)
    rectified: Tensor = _LinearReLU.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return rectified.view(*x.shape[:-1], -1)


class _LinearReLU(torch.autograd.Function):
    """max(0, x weight^T + bias) by an operator that has no gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rectified: Tensor = torch.ops.aten._addmm_activation(bias, x, weight.t())
        ctx.save_for_backward(x, weight, rectified)
        return rectified

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rectified = ctx.saved_tensors  # (n, i), (o, i), (n, o)
        # The output tells as well as the input where the ReLU was flat.
        gradient = torch.ops.aten.threshold_backward(gradients[0], rectified, 0)
        wanted = ctx.needs_input_grad
        return (
            gradient @ weight if wanted[0] else None,
            gradient.t() @ x if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    by_onednn = _is_by_onednn(x)
    # torch itself multiplies half types by oneDNN.
    if not by_onednn and (x.device.type != "cpu" or x.dtype.itemsize > 2):
        return F.linear(x, weight, bias)
    function = _OneDNNLinear.apply if by_onednn else F.linear
    return in_few_sizes(lambda rows, bias: function(rows, weight, bias))(x, bias)


class _OneDNNLinear(torch.autograd.Function):
    """F.linear on two dimensions, with its three products by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors  # (n, i), (o, i)
        gradient = gradients[0].contiguous()  # (n, o)
        wanted = ctx.needs_input_grad
        # The operator transposes its second factor, so each is given as its transpose.
        return (
            onednn_product(gradient, weight.t()) if wanted[0] else None,
            onednn_product(gradient.t(), x.t()) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


def has_onednn() -> bool:
    """Return whether this torch has oneDNN's product, which gives the same to rounding."""
    random = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, 64, generator=random) for n in (32, 96))
    try:
        product = onednn_product(x, weight)
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(product, F.linear(x, weight), rtol=1e-4, atol=1e-3)
