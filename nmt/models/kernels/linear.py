"""Matrix products of models, by whichever of the CPU's two libraries is faster here.

torch hands fp32 products to MKL, which leaves AMD's AVX-512 units idle; oneDNN, also inside torch,
then is twice as fast. Elsewhere either may lead, and not for all kinds of product. So both are
timed on the shapes of the model, for each kind, and the recipe's `matmul` notes the choice.
oneDNN's operator is a private one of torch: where it is missing, or gives other results, torch's
own way remains. The weights of a model that only translates may be packed (`packed_weights`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Kind = Literal["forward", "input", "weight"]
"""A product of a linear layer: its output, or the gradient of its input or of its weight."""

_KINDS: tuple[Kind, ...] = ("forward", "input", "weight")


@dataclass
class _Choice:
    """Of flags, which unlike a dictionary or a set are nothing to a compiler."""

    forward: bool = False  # by oneDNN, and so on
    input: bool = False
    weight: bool = False
    any_packed: bool = False


_choice = _Choice()

Product = Callable[[Tensor, Tensor | None], Tensor]
"""Of x (..., i) and a bias (o,): x weight^T + bias, with a weight that it holds."""

_PACKED = "packed_product"
"""Of weights: the attribute that holds their `Product`."""


def use_library(name: str) -> None:
    """Let this process compute fp32 products on CPUs by `torch` or by `onednn`.

    `onednn:forward,weight` leaves the gradients of inputs to torch, and so on.
    """
    library, _, kinds = name.partition(":")
    for kind in _KINDS:
        setattr(_choice, kind, library == "onednn" and (not kinds or kind in kinds.split(",")))


def use_packed(weight: Tensor, product: Product) -> None:
    """Let all products with this weight be made by `product`, as long as the weight lives."""
    setattr(weight, _PACKED, product)
    _choice.any_packed = True


def _is_fp32_on_cpu(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu"


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (n, i) weight^T (i, o) + bias on a CPU.

    Raises:
        AttributeError: if this torch has no such operator.
        RuntimeError: if this processor has none for the type.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def matmul(a: Tensor, b: Tensor, kind: Kind) -> Tensor:
    """Return a (n, m) b (m, k), which is a product of that kind; without a gradient."""
    by_onednn = getattr(_choice, kind) and _is_fp32_on_cpu(a)
    return onednn_product(a, b.t()) if by_onednn else a @ b


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (..., i) weight (o, i)^T + bias (o,): (..., o)."""
    if _choice.any_packed:
        packed: Product | None = getattr(weight, _PACKED, None)
        if packed is not None:
            return packed(x, bias)
    some = _choice.forward or _choice.input or _choice.weight
    if not (some and _is_fp32_on_cpu(x)):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])  # (n, i)
    product: Tensor = _OneDNNLinear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return product.view(*x.shape[:-1], -1)


class _OneDNNLinear(torch.autograd.Function):
    """F.linear on two dimensions; of its three products some or all go through oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return (onednn_product if _choice.forward else F.linear)(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors  # (n, i), (o, i)
        gradient = gradients[0].contiguous()  # (n, o)
        wanted = ctx.needs_input_grad
        return (
            matmul(gradient, weight, "input") if wanted[0] else None,
            matmul(gradient.t(), x, "weight") if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


_LIBRARIES = ("torch", "onednn")

_TIMED_WORK = 1 << 29
"""Multiply-adds of a product that is timed, where it has over 256 rows: 10 ms of two fast cores."""

_TIMING_SECONDS = 0.7


def fastest_library(weights: Mapping[tuple[int, int], int], rows: int) -> str:
    """Return what `use_library` takes: the library that takes less time here, for each kind.

    oneDNN must also agree with torch to rounding. It takes about a second, or some where the
    vocabulary is large.

    Args:
        weights: how many there are of each shape (o, i).
        rows: n, the tokens of a micro-batch.
    """
    torchs, onednns = dict.fromkeys(_KINDS, 0.0), dict.fromkeys(_KINDS, 0.0)
    try:
        for shape, count in weights.items():
            for kind, (by_torch, by_onednn) in _seconds_a_row(
                shape, rows, _TIMING_SECONDS / len(weights)
            ).items():
                torchs[kind] += count * by_torch
                onednns[kind] += count * by_onednn
    except (AttributeError, RuntimeError):
        return "torch"
    # A choice that changes with the weather would be none: oneDNN has to win clearly.
    kinds = [kind for kind in _KINDS if 1.1 * onednns[kind] < torchs[kind]]
    if len(kinds) == len(_KINDS):
        return "onednn"
    return f"onednn:{','.join(kinds)}" if kinds else "torch"


def _seconds_a_row(
    shape: tuple[int, int], rows: int, budget: float
) -> dict[Kind, tuple[float, float]]:
    """Return the seconds by torch and by oneDNN for a token, of each kind of product.

    Args:
        shape: of the weight.
        rows: n; large products are timed with fewer.
        budget: seconds to spend, unless two rounds take longer.

    Raises:
        AttributeError, RuntimeError: if oneDNN has no such product, or a wrong one.
    """
    o, i = shape
    n = min(rows, max(256, _TIMED_WORK // (o * i)))
    random = torch.Generator().manual_seed(0)
    x, weight, gradient = (torch.randn(size, generator=random) for size in ((n, i), (o, i), (n, o)))
    operands: dict[Kind, tuple[Tensor, Tensor]] = {  # a and b of a b^T
        "forward": (x, weight),
        "input": (gradient, weight.t()),
        "weight": (gradient.t(), x.t()),
    }
    seconds = {(kind, by): math.inf for kind in operands for by in _LIBRARIES}
    started = time.perf_counter()
    for round in range(5):
        if round >= 2 and time.perf_counter() - started > budget:
            break
        for kind, (a, b) in operands.items():
            results = {}
            # In turn, because the second one finds its operands in the cache.
            for by in _LIBRARIES[:: 1 if round % 2 else -1]:
                product = F.linear if by == "torch" else onednn_product
                results[by], took = _timed(product, a, b)
                seconds[kind, by] = min(seconds[kind, by], took / n)
            expected, found = (results[by] for by in _LIBRARIES)
            if not round and not torch.allclose(expected, found, rtol=1e-4, atol=1e-3):
                raise RuntimeError("oneDNN's product is not torch's")
    return {kind: (seconds[kind, "torch"], seconds[kind, "onednn"]) for kind in operands}


def _timed(
    product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor
) -> tuple[Tensor, float]:
    """Return a product and its seconds: of CPU time in this thread, which does its share of the
    work, so that other processes on a busy machine have no say."""
    started = time.thread_time()
    result = product(a, b)
    return result, time.thread_time() - started
