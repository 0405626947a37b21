"""Weights of a model that only translates, laid out once for fast products on a CPU.

A library's products want weights in blocks of its own; the usual layout is rearranged at every
call, which costs most where few rows are multiplied, as in a step of the decoder. What is packed:

- fp32: for oneDNN where the CPU has AVX-512; elsewhere MKL is faster, most so if weights stand the
  other way round. Both differ from torch's own products in rounding only. The CPU decides and not
  a measurement, so that one machine translates alike every time.
- bf16: weights, inputs and results are rounded to 8 bits of mantissa; sums are fp32. It pays where
  the CPU has bf16 instructions.
- int8: weights are rounded to 8 bits, with a scale for each output; inputs with a scale for each
  row, so that a sentence's result does not depend on those beside it; sums are exact. On CPUs with
  VNNI instructions by oneDNN, elsewhere by FBGEMM, whose inputs have 7 bits: without VNNI the sum
  of two products of 8 bits each can overflow.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.errors import UsageError
from nmt.models.contract import TranslationModel
from nmt.models.embeddings import TokenEmbedding
from nmt.models.linear import Product, onednn_product, use_packed
from nmt.models.positions import LearnedPositions
from nmt.models.relative_attention import RelativePositions

_LOOKED_UP = (TokenEmbedding, LearnedPositions, RelativePositions, nn.Embedding)


_CPUINFO = Path("/proc/cpuinfo")
_ROWS = 64  # for about so many rows oneDNN lays a weight out; it serves all numbers well


def pack(model: TranslationModel, precision: str) -> None:
    """Pack all weights that the model multiplies by, and let go of the originals.

    Those of embeddings stay, and the output projection's, of which a shortlist takes rows.

    The model multiplies by its matrices through `linear`; only torch's own recurrent layers, which
    have no other way, multiply by theirs themselves, and keep them as they are.

    Where this torch lacks what fp32 needs, the model stays as it is.

    Args:
        model: in fp32, on the CPU; from now on it can only translate.
        precision: one of a CPU's `device.PRECISIONS`.

    Raises:
        UsageError: if this torch or this CPU has no products of that precision.
    """
    packer = _PACKERS[precision]
    if not _works(packer, precision):
        if precision == "fp32":
            return
        raise UsageError(
            f"precision {precision}: torch {torch.__version__} has no such products for this CPU; "
            "use --precision fp32"
        )
    embeddings, recurrent = (
        {
            id(weight)
            for module in model.modules()
            if isinstance(module, kinds)
            for weight in module.parameters()
        }
        for kinds in (_LOOKED_UP, nn.RNNBase)
    )
    for weight in model.parameters():
        if weight.dim() != 2 or id(weight) in recurrent:
            continue
        is_embedding = id(weight) in embeddings
        if not is_embedding or weight is model.output_projection:
            use_packed(weight, packer(weight.detach()))
        if not is_embedding and weight is not model.output_projection:
            # Of its shape, but of one number that spoils what it would be used for.
            weight.data = weight.new_full((1, 1), math.nan).expand_as(weight)


def _works(packer: Callable[[Tensor], Product], precision: str) -> bool:
    """Tell whether products of packed weights are there, and are what they should be."""
    random = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(size, 64, generator=random) for size in (5, 48))
    bias = torch.randn(48, generator=random)
    expected = F.linear(x, weight, bias)
    try:
        found = packer(weight)(x, bias)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    # Sums of 64 products with a standard deviation of 8.
    tolerance = {"fp32": 1e-4, "bf16": 0.3, "int8": 1.0}[precision]
    return bool((found - expected).abs().max() < tolerance)


def _pack_fp32(weight: Tensor) -> Product:
    return (_pack_fp32_onednn if _has("avx512f") else _pack_fp32_mkl)(weight)


def _pack_fp32_mkl(weight: Tensor) -> Product:
    transposed = weight.t().contiguous()  # (i, o)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return x @ transposed
        rows = x.reshape(-1, x.shape[-1])  # (n, i)
        return torch.addmm(bias, rows, transposed).view(*x.shape[:-1], -1)

    return product


def _pack_fp32_onednn(weight: Tensor) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        return onednn_product(x, packed, bias)

    return product


def _pack_bf16(weight: Tensor) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _ROWS)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        summed = onednn_product(x.bfloat16(), packed).float()
        return summed if bias is None else summed.add_(bias)

    return product


def _pack_int8(weight: Tensor) -> Product:
    return (_pack_int8_onednn if _has("avx512_vnni", "avx_vnni") else _pack_int8_fbgemm)(weight)


def _pack_int8_onednn(weight: Tensor) -> Product:
    rounded, scales = _rounded(weight)
    packed = torch.ops.onednn.qlinear_prepack(rounded, None)
    zeros = torch.zeros(len(weight), dtype=torch.int64)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        steps = _steps(x, 127)
        summed: Tensor = torch.ops.onednn.qlinear_pointwise(
            (x / steps).round_().to(torch.int8),
            *(1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""),
        )
        return _scaled(summed, steps, bias)

    return product


def _pack_int8_fbgemm(weight: Tensor) -> Product:
    rounded, scales = _rounded(weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a future torch will be without this
        quantized = torch._make_per_channel_quantized_tensor(
            rounded, scales.double(), torch.zeros(len(weight), dtype=torch.int64), 0
        )
    packed: Any = torch.ops.quantized.linear_prepack(quantized, None)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        steps = _steps(x, 63)
        # The operator rounds x / 1.0 itself, to 1 to 127 about the zero point 64.
        summed: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / steps, 1.0, 64, packed
        )
        return _scaled(summed, steps, bias)

    return product


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight (o, i) as int8, and the scale (o,) of each output."""
    steps = _steps(weight, 127)  # (o, 1)
    return (weight / steps).round_().to(torch.int8), steps[:, 0].contiguous()


def _steps(x: Tensor, levels: int) -> Tensor:
    """Return for each row of x (..., i) the step (..., 1) of which it has `levels` at most."""
    return x.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30).div_(levels)


def _scaled(summed: Tensor, steps: Tensor, bias: Tensor | None) -> Tensor:
    return summed.mul_(steps) if bias is None else torch.addcmul(bias, summed, steps)


def _has(*flags: str) -> bool:
    """Tell whether the CPU has any of these instructions."""
    known = _CPUINFO.read_text() if _CPUINFO.is_file() else ""
    return any(flag in known for flag in flags)


_PACKERS = {"fp32": _pack_fp32, "bf16": _pack_bf16, "int8": _pack_int8}
