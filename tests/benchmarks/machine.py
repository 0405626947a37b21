"""The machine of a measurement, and its speed of matrix products."""

import functools
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.models.kernels.linear import onednn_product
from nmt.system.machine import cores

CORES = cores()

_SECONDS = 1.0
"""Each kind of product is repeated for this long, and the fastest counts."""


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Return the CPU's instruction sets, by Linux's names."""
    return frozenset(_cpuinfo("flags").split())


def has_bf16() -> bool:
    """Tell whether the CPU multiplies bf16 in hardware."""
    return bool({"avx512_bf16", "amx_bf16"} & cpu_flags())


def describe() -> str:
    """Name the hardware by kind, and torch's version."""
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    isa = ", ".join(flag for flag in known if flag in cpu_flags()) or platform.machine()
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    model = _cpuinfo("model name") or platform.machine()
    return "; ".join([f"{model}, {CORES} cores ({isa})", *gpus, f"torch {torch.__version__}"])


def product_rates(device: str, gpu_size: int = 4096) -> dict[str, float]:
    """Return the FLOP/s of matrix products by kind, on all cores or the GPU.

    gpu_size: rows and columns on a GPU in fp32. In bf16 there are twice as many.
    """
    if device == "cuda":
        small, large = (gpu_size,) * 3, (2 * gpu_size,) * 3
        return {
            "fp32 (no TF32)": _rate(F.linear, small, torch.float32, device),
            "bf16": _rate(F.linear, large, torch.bfloat16, device),
        }
    threads, shape = torch.get_num_threads(), (4096, 1024, 1024)
    torch.set_num_threads(CORES)
    rates = {"fp32 (F.linear)": _rate(F.linear, shape, torch.float32, device)}
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        rates["fp32 (oneDNN)"] = _rate(onednn_product, shape, torch.float32, device)
    if has_bf16():
        rates["bf16"] = _rate(F.linear, shape, torch.bfloat16, device)
    torch.set_num_threads(threads)
    return rates


def best_rate(rates: dict[str, float], precision: str) -> float:
    """Return the FLOP/s of the fastest way to multiply in a precision."""
    return max(rate for name, rate in rates.items() if name.startswith(precision))


def _cpuinfo(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _rate(
    multiply: Callable[[Tensor, Tensor], Tensor],
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    device: str,
) -> float:
    """Return the FLOP/s of (rows, inner) times (inner, columns) at their fastest."""
    rows, inner, columns = shape
    x = torch.randn(rows, inner, device=device, dtype=dtype)
    weight = torch.randn(columns, inner, device=device, dtype=dtype)
    multiply(x, weight)
    fastest, stop = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < stop:
        began = time.perf_counter()
        for _ in range(3):
            multiply(x, weight)
        if device == "cuda":
            torch.cuda.synchronize()
        fastest = min(fastest, (time.perf_counter() - began) / 3)
    return 2 * rows * inner * columns / fastest
