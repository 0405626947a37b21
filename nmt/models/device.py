"""Devices and precisions, transfers, out-of-memory errors, and memory reuse on CPUs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from nmt.errors import UsageError, did_you_mean, is_of_memory
from nmt.system.own_process import in_a_copy

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


DEVICES = ("auto", "cpu", "cuda")
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int16", "int8_float16")
"""Types of the weights of an export for CTranslate2."""
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""torch's names of the types of our precisions."""
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "bf16", "fp16")}
"""Precisions for translation, by kind of device."""


def dtype_of(precision: str) -> torch.dtype:
    """Return the type of weights and activations in a precision."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[precision])
    return dtype


def default_precision(device: torch.device) -> str:
    """Return bf16 on GPUs that compute in it, and fp32 elsewhere."""
    return "bf16" if is_since_ampere(device) else "fp32"


def is_since_ampere(device: torch.device) -> bool:
    """Return whether a device is a GPU that computes in bf16 and TF32."""
    import torch

    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def use_tf32(device: torch.device, precision: str) -> None:
    """Let a GPU compute products of fp32 matrices in TF32 if that is the precision, else in fp32.

    TF32 has the 8 bits of exponent of fp32 and the 10 of mantissa of fp16.
    """
    import torch

    if device.type == "cuda":
        is_tf32 = precision == "tf32"
        # torch.compile reads these. In some releases it fails if `matmul.fp32_precision` was set.
        torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = is_tf32  # of LSTMs; cuDNN's default is TF32


def torch_gpus() -> int:
    """Return how many GPUs torch can use.

    A copy of this process asks the driver: one that has asked could start no copies (`launch`).
    """
    import torch

    return in_a_copy(lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0)


def gpus_of(name: str, count: Callable[[], int]) -> int:
    """Return how many GPUs `auto`, `cpu` or `cuda` means; 0: the CPU.

    name: of the device; count: returns how many GPUs there are.
    UsageError if the name is unknown, or there is no GPU.
    """
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}{did_you_mean(name, DEVICES)}")
    gpus = 0 if name == "cpu" else count()
    if name == "cuda" and not gpus:
        raise UsageError("device cuda: this machine has no GPU that can be used; use --device cpu")
    return gpus


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device that `auto`, `cpu` or `cuda` means for a process of this machine.

    UsageError if the name is unknown, or no GPU is there for this process.
    """
    gpus = gpus_of(name, torch_gpus)
    import torch  # takes seconds, and a wrong name is refused before

    if not gpus:
        return torch.device("cpu")
    if local_rank >= gpus:
        raise UsageError(f"process {local_rank} has no GPU: this machine has {gpus}; start fewer")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def to_device(
    arrays: Sequence[NDArray[np.generic]], device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Return arrays of one type as tensors on a device; a CPU shares their memory.

    A GPU gets them in one transfer from pinned memory, for which this process does not wait.
    """
    import torch

    tensors = tuple(map(torch.from_numpy, arrays))
    if device.type == "cpu":
        return tensors
    sizes = [tensor.numel() for tensor in tensors]
    if not any(sizes):
        return tuple(tensor.new_empty(tensor.shape, device=device) for tensor in tensors)
    joined = torch.cat([tensor.flatten() for tensor in tensors])
    if device.type == "cuda":  # the meta device, which counts work, has no pinned memory
        joined = joined.pin_memory()
    parts = torch.split(joined.to(device, non_blocking=True), sizes)
    return tuple(part.view(own.shape) for part, own in zip(parts, tensors, strict=True))


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the rows of the parts, which a single one does not need."""
    import torch

    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MemoryError if memory runs out, on a GPU or the CPU. Also a decorator."""
    try:
        yield
    except (RuntimeError, OSError) as error:  # the system's, of a mapping
        if is_of_memory(error):  # torch.OutOfMemoryError has such a message, too
            raise MemoryError(str(error)) from error
        raise


_changing_threads = threading.Lock()
# A fork must not get it locked by a thread that it does not have.
os.register_at_fork(
    before=_changing_threads.acquire,
    after_in_parent=_changing_threads.release,
    after_in_child=_changing_threads.release,
)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute on so many threads what this thread of Python asks of it, and no other."""
    before = _set_torch_threads(count)
    try:
        yield
    finally:
        _set_torch_threads(before)


def _set_torch_threads(count: int) -> int:
    """Set torch's threads for this thread of Python; return how many there were."""
    import torch

    before = torch.get_num_threads()
    if before != count:
        # torch's own function sets them for this thread, and for all that have not asked torch for
        # anything yet. For these, a new thread reads the number before, and sets it again after.
        with _changing_threads, ThreadPoolExecutor(1) as new_thread:
            of_others = new_thread.submit(torch.get_num_threads).result()
            torch.set_num_threads(count)
            new_thread.submit(torch.set_num_threads, of_others).result()
    return before


# The parameters of glibc's mallopt, from its malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Keep freed memory in this process, on systems with glibc.

    Every layer makes and frees tensors of many MB. By default each is a new mapping, and the system
    clears its pages again: 100,000 page faults per update of the small model in training.
    """
    import ctypes  # here, so that the options of commands are read without it

    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, 64 << 20)


def return_freed_memory() -> None:
    """Return freed memory to the system, on systems with glibc.

    What a validation frees lies between what training uses, in other places each time. If it is
    kept, two processes with a small model grow from 1,550 to 1,770 MB in twelve validations.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
