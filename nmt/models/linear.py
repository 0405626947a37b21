"""Matrix products of models, by whichever of the CPU's two libraries is faster here.

torch hands fp32 products to MKL, which leaves AMD's AVX-512 units idle; oneDNN, also inside torch,
then is twice as fast. On CPUs without AVX-512 MKL leads. So both are timed, and the recipe's
`matmul` notes the choice. oneDNN's operator is a private one of torch: where it is missing, or
gives other results, torch's own way remains. The weights of a model that only translates may be
packed (`packed_weights`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass
class _Choice:
    library: str = "torch"
    any_packed: bool = False  # which, unlike a dictionary, is nothing to a compiler


_choice = _Choice()

Product = Callable[[Tensor, Tensor | None], Tensor]
"""Of x (..., i) and a bias (o,): x weight^T + bias, with a weight that it holds."""

_packed = WeakTensorKeyDictionary()


def use_library(name: str) -> None:
    """Let this process compute fp32 products on CPUs by `torch` or by `onednn`."""
    _choice.library = name


def use_packed(weight: Tensor, product: Product) -> None:
    """Let all products with this weight be made by `product`, as long as the weight lives."""
    _packed[weight] = product
    _choice.any_packed = True


def _onednn_serves(x: Tensor) -> bool:
    return _choice.library == "onednn" and x.dtype == torch.float32 and x.device.type == "cpu"


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (n, i) weight^T (i, o) + bias on a CPU.

    Raises:
        AttributeError: if this torch has no such operator.
        RuntimeError: if this processor has none for the type.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a (n, m) b (m, k); without a gradient."""
    return onednn_product(a, b.t()) if _onednn_serves(a) else a @ b


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (..., i) weight (o, i)^T + bias (o,): (..., o)."""
    if _choice.any_packed and weight in _packed:
        packed: Product = _packed[weight]
        return packed(x, bias)
    if not _onednn_serves(x):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])  # (n, i)
    product: Tensor = _OneDNNLinear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return product.view(*x.shape[:-1], -1)


class _OneDNNLinear(torch.autograd.Function):
    """F.linear on two dimensions; its three products go through oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors  # (n, i), (o, i)
        gradient = gradients[0].contiguous()  # (n, o)
        wanted = ctx.needs_input_grad
        return (
            onednn_product(gradient, weight.t()) if wanted[0] else None,
            onednn_product(gradient.t(), x.t()) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


def fastest_library(width: int) -> str:
    """Return the library whose three products of a linear layer take less time here.

    oneDNN must also agree with torch to rounding. It takes some tenths of a second.

    Args:
        width: D, of the model.
    """
    random = torch.Generator().manual_seed(0)
    rows, wider = max(256, (1 << 20) // width), 2 * width  # about as many tokens as are at work
    x, weight, gradient = (
        torch.randn(shape, generator=random)
        for shape in ((rows, width), (wider, width), (rows, wider))
    )

    def by_torch() -> list[Tensor]:
        return [F.linear(x, weight), gradient @ weight, gradient.t() @ x]

    def by_onednn() -> list[Tensor]:
        return [
            onednn_product(x, weight),
            onednn_product(gradient, weight.t()),
            onednn_product(gradient.t(), x.t()),
        ]

    try:
        pairs = zip(by_torch(), by_onednn(), strict=True)
        agree = all(torch.allclose(a, b, rtol=1e-4, atol=1e-3) for a, b in pairs)
    except (AttributeError, RuntimeError):
        return "torch"
    # A choice that changes with the weather would be none: oneDNN has to win clearly.
    return "onednn" if agree and 1.1 * _shortest(by_onednn) < _shortest(by_torch) else "torch"


def _shortest(work: Callable[[], object], repetitions: int = 5) -> float:
    seconds = []
    for _ in range(repetitions):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
