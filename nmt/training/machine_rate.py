"""How fast this machine multiplies matrices: what model-FLOPs utilisation is a share of."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.models.device import dtype_of
from nmt.models.linear import onednn_product
from nmt.training.distributed import Ranks

_SECONDS = 0.05  # for each way of multiplying
# Rows and columns: large enough for full speed, and done in a fraction of a second.
_CPU_SIZE, _GPU_SIZE = 1024, 8192


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the FLOP/s (two a multiply-add) of the fastest of several matrix products.

    It is that of this process with its threads. Where processes share a machine, all of them
    should measure at once. The random numbers of training are not touched.
    """
    size = _GPU_SIZE if device.type == "cuda" else _CPU_SIZE
    random = torch.Generator(device).manual_seed(0)
    x, weight = (
        torch.randn(size, size, generator=random, device=device).to(dtype) for _ in range(2)
    )
    products = [functools.partial(F.linear, x, weight)]
    if device.type == "cpu":
        # F.linear leaves fp32 to another library; which is the faster, differs by processor.
        products.append(functools.partial(onednn_product, x, weight))
    rates = [0.0]
    for product in products:
        # a type that this processor has no code for, or no oneDNN
        with contextlib.suppress(AttributeError, RuntimeError):
            rates.append(2 * size**3 / _shortest(product, device))
    return max(rates)


def rate_of_ranks(precision: str, device: torch.device, ranks: Ranks) -> tuple[float, str]:
    """Return the FLOP/s of all ranks together, and a warning if fp32 were faster, or nothing."""
    rate = matrix_product_rate(device, dtype_of(precision))
    total: float = sum(ranks.gather(rate))
    plain = matrix_product_rate(device, torch.float32) if precision != "fp32" else 0.0
    if rate >= plain:
        return total, ""
    return total, (
        f"this {device.type} computes {precision} at {rate / 1e9:,.0f} GFLOP/s and fp32 at "
        f"{plain / 1e9:,.0f}: train in fp32 here"
    )


def device_name(device: torch.device) -> str:
    """Return the kind of the device: the GPU's model, or the instructions that the CPU has."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {torch.backends.cpu.get_cpu_capability()}"


def _shortest(product: Callable[[], Tensor], device: torch.device) -> float:
    """Return the seconds that the quickest of several calls took."""
    _wait(device)
    times = [time.perf_counter()]
    while len(times) == 1 or times[-1] - times[0] < _SECONDS:
        product()
        _wait(device)
        times.append(time.perf_counter())
    return min(after - before for before, after in itertools.pairwise(times))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
