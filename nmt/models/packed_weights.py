"""Packed weights: faster matrix products on a CPU for a model that only translates.

A library's products want weights in its own blocks. Otherwise each call rearranges them, which
costs most with few rows, as in a decoding step. Which kernel is fastest depends on the CPU, so it
is chosen by measurement. Each first computes a small product. One that fails, is wrong or is
hopelessly slow is left out. The others are timed on the largest shapes of the model's weights.

- fp32: torch's library, mostly MKL, with the weight as it is or transposed, or oneDNN with the
  weight in blocks. They differ only in rounding.
- bf16: weights, inputs and results are rounded to 8 bits of mantissa; sums are fp32. For CPUs
  without such instructions, rounded weights can also be multiplied in fp32.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.base import TranslationModel
from nmt.models.device import torch_threads
from nmt.models.kernels.linear import Product, in_few_sizes, onednn_product, use_packed
from nmt.models.layers import TokenEmbedding
from nmt.models.positions import LearnedPositions, RelativePositions
from nmt.system.own_process import in_a_copy

Packer = Callable[[Tensor], Product]  # makes the product with a weight (o, i), which is in fp32

_LAYOUT_ROWS = 64  # that oneDNN expects when it packs; works well for any number

_TIMED_ROWS = (4, 256)  # of a step for one line, and for a batch
_TIMED_SHAPES = 3
_TIMED_ELEMENTS = 1 << 17  # of larger weights, only the first rows are timed
_ROUNDS = 3
_ROUND_SECONDS = 1e-4  # shortest time of a kernel in a round
_SHORTEST_SECONDS = 1e-6  # if a coarse clock shows 0

_MARGIN = 1.1  # a kernel must be 10 % faster than an earlier one, so that the choice is stable

_HOPELESS, _HOPELESS_SECONDS = 10, 1e-3
"""A kernel is hopeless if it takes this many times as long as torch, and this many seconds."""

_TOLERANCES = {"fp32": 1e-5, "bf16": 0.01}
"""Largest error of a kernel, as a share of the sum of absolute products."""


def choose(shapes: Iterable[tuple[int, int]], precision: str) -> tuple[str, float]:
    """Measure the fastest kernel for a model's weights, once per process, on one thread.

    shapes: (o, i) of each weight; precision: one of a CPU's `device.PRECISIONS`.
    Returns the kernel, and how many times as fast it is as the fastest in fp32.
    """
    largest = sorted(set(shapes), key=lambda shape: (-math.prod(shape), shape))
    timed = [(max(1, min(o, _TIMED_ELEMENTS // i)), i) for o, i in largest]
    return _choose(tuple(dict.fromkeys(timed))[:_TIMED_SHAPES], precision)


@functools.cache
def is_usable(kernel: str, precision: str) -> bool:
    """Tell whether a kernel exists, is correct, and is not hopelessly slow."""
    if kernel not in KERNELS[precision]:
        return False
    random = torch.Generator().manual_seed(0)
    # Enough numbers that reference code takes milliseconds.
    x, weight = (torch.randn(rows, 128, generator=random) for rows in (64, 128))
    with torch.inference_mode(), torch_threads(1):
        try:
            product = KERNELS[precision][kernel](weight)
            result = product(x, None)
        except (AttributeError, RuntimeError, NotImplementedError):
            return False  # this torch has no such operator, or not for this CPU
        error = (result - F.linear(x, weight)).abs()
        if (error > _TOLERANCES[precision] * F.linear(x.abs(), weight.abs())).any():
            return False
        most = max(_HOPELESS * _seconds(_as_it_is(weight), x), _HOPELESS_SECONDS)
        return _seconds(product, x) <= most


@functools.cache
def _choose(shapes: tuple[tuple[int, int], ...], precision: str) -> tuple[str, float]:
    measure = functools.partial(_measured, shapes, precision)
    # In a copy, since libraries keep what they have built for kernels that lose. But another thread
    # may hold a lock, which a copy would wait for.
    kernel, speedup = in_a_copy(measure) if threading.active_count() == 1 else measure()
    return kernel, speedup


def _measured(shapes: tuple[tuple[int, int], ...], precision: str) -> tuple[str, float]:
    usable = [kernel for kernel in KERNELS[precision] if is_usable(kernel, precision)]
    with torch.inference_mode(), torch_threads(1):
        seconds = _race({kernel: KERNELS[precision][kernel] for kernel in usable}, shapes)
    # Rounded weights take as long as exact ones.
    fp32 = _clearly_first([kernel for kernel in seconds if kernel in KERNELS["fp32"]], seconds)
    own = [kernel for kernel in seconds if kernel not in KERNELS["fp32"]]
    kernel = _clearly_first([*own, fp32], seconds)
    return kernel, seconds[fp32] / seconds[kernel]


def _clearly_first(kernels: Sequence[str], seconds: Mapping[str, float]) -> str:
    best = kernels[0]
    for kernel in kernels[1:]:
        if _MARGIN * seconds[kernel] < seconds[best]:
            best = kernel
    return best


def _race(packers: Mapping[str, Packer], shapes: Iterable[tuple[int, int]]) -> dict[str, float]:
    """Return the seconds of kernels for all shapes together, the shortest of some rounds each."""
    random = torch.Generator().manual_seed(0)
    seconds = dict.fromkeys(packers, 0.0)
    for shape in shapes:
        weight = torch.rand(shape, generator=random).sub_(0.5)
        products = {kernel: packer(weight) for kernel, packer in packers.items()}
        for rows in _TIMED_ROWS:
            x = torch.rand(rows, shape[1], generator=random).sub_(0.5)
            fastest = min(_seconds(product, x) for product in products.values())
            calls = 1 + int(_ROUND_SECONDS / fastest)
            rounds = [  # in which kernels take turns
                {kernel: _seconds(product, x, calls) for kernel, product in products.items()}
                for _ in range(_ROUNDS)
            ]
            for kernel in seconds:
                seconds[kernel] += min(timed[kernel] for timed in rounds)
    return seconds


def _seconds(product: Product, x: Tensor, calls: int = 1) -> float:
    """Return the CPU time of a call in this thread."""
    product(x, None)  # warms the caches after other kernels
    started = time.thread_time()
    for _ in range(calls):
        product(x, None)
    return max(_SHORTEST_SECONDS, time.thread_time() - started) / calls


def _transposed(weight: Tensor) -> Product:
    transposed = weight.t().contiguous()  # (i, o)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return x @ transposed
        rows = x.reshape(-1, x.shape[-1])  # (n, i)
        return torch.addmm(bias, rows, transposed).view(*x.shape[:-1], -1)

    return product


def _onednn(weight: Tensor) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _LAYOUT_ROWS)
    return in_few_sizes(lambda x, bias: onednn_product(x, packed, bias))


def _as_it_is(weight: Tensor) -> Product:
    return lambda x, bias: F.linear(x, weight, bias)


def _bf16_onednn(weight: Tensor) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _LAYOUT_ROWS)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        summed = onednn_product(x.bfloat16(), packed).float()
        return summed if bias is None else summed.add_(bias)

    return in_few_sizes(product)


def _with_rounded_weight(packer: Packer, weight: Tensor) -> Product:
    return packer(weight.bfloat16().float())


_USUAL = "torch"

_FP32: dict[str, Packer] = {"transposed": _transposed, "onednn": _onednn, _USUAL: _as_it_is}

KERNELS: dict[str, dict[str, Packer]] = {
    "fp32": _FP32,
    "bf16": {
        "onednn-bf16": _bf16_onednn,
        **{
            kernel: functools.partial(_with_rounded_weight, packer)
            for kernel, packer in _FP32.items()
        },
    },
}
"""By precision and name. If kernels are about equally fast, the first is preferred."""


_LOOKED_UP = (TokenEmbedding, LearnedPositions, RelativePositions, nn.Embedding)


def choose_kernel(models: Sequence[TranslationModel], precision: str) -> tuple[str, float]:
    """Return the fastest kernel for the weights of some models (see `choose`)."""
    weights = (weight for model in models for weight in multiplied(model))
    return choose(((len(weight), weight.shape[1]) for weight in weights), precision)


def pack(model: TranslationModel, precision: str, kernel: str | None = None) -> None:
    """Pack all weights of matrix products, and free the originals.

    Embeddings keep theirs. torch's recurrent layers do not multiply through `linear` and are left
    unchanged.

    model: in fp32, on the CPU; from now on it can only translate.
    precision: one of a CPU's `device.PRECISIONS`.
    kernel: one of that precision; the fastest for this model if None.
    """
    packer = KERNELS[precision][kernel or choose_kernel([model], precision)[0]]
    embeddings = _weights_of(model, _LOOKED_UP)
    for weight in list(multiplied(model)):
        use_packed(weight, packer(weight.detach()))
        if id(weight) not in embeddings:
            # Same shape, but all NaN, so that any further use is noticed.
            weight.data = weight.new_full((1, 1), math.nan).expand_as(weight)


def multiplied(model: TranslationModel) -> Iterator[nn.Parameter]:
    """Yield the matrices that the model multiplies by through `linear`, tied ones once."""
    others = _weights_of(model, (*_LOOKED_UP, nn.RNNBase))
    for weight in model.parameters():
        if weight.dim() == 2 and (id(weight) not in others or weight is model.output_projection):
            yield weight


def _weights_of(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> set[int]:
    modules = (module for module in model.modules() if isinstance(module, kinds))
    return {id(weight) for module in modules for weight in module.parameters()}
