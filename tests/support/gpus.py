"""What tests need of a GPU, of the software beside it, or of the machine."""

import os
import shutil

import pytest
import torch
from torch import distributed
from torch.utils._triton import has_triton

GPU = torch.device("cuda")

_HAS_GPU = torch.cuda.is_available()
_HAS_BF16 = _HAS_GPU and torch.cuda.get_device_capability() >= (8, 0)
_COMPILER = os.environ.get("CC") or any(map(shutil.which, ("clang", "gcc", "cc")))

needs_gpu = pytest.mark.skipif(not _HAS_GPU, reason="needs a GPU that torch can use")
needs_bf16 = pytest.mark.skipif(not _HAS_BF16, reason="needs a GPU since Ampere")
needs_triton = pytest.mark.skipif(
    not (_HAS_GPU and has_triton() and _COMPILER), reason="needs Triton and a C compiler"
)
needs_nccl = pytest.mark.skipif(not distributed.is_nccl_available(), reason="needs NCCL")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

HALF = "bf16" if _HAS_BF16 else "fp16"
"""The precision of 16 bits in which this GPU trains."""
