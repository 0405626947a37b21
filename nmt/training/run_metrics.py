"""The training metrics of a run: loss, speed, model-FLOPs utilisation, and a checksum of weights.

A `MetricsWindow` counts from one line of the log to the next. `matrix_product_rate` measures the
FLOP/s of plain matrix products, to which model-FLOPs utilisation refers. `checksum` is computed on
the device of the weights and is the same on every kind of device.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import LengthSums
from nmt.data.updates import Update
from nmt.errors import NMTError
from nmt.models.kernels.linear import onednn_product
from nmt.system.distributed import Ranks
from nmt.training.update import UpdateResult

# Values summed at a time: 2 MB of int64, and a few times that for intermediate results.
_CHUNK = 1 << 18

_SECONDS = 0.05  # of measuring, for each way to multiply
_SMALLEST, _LARGEST = 1024, 8192  # rows and columns
_LONG = 1e-3  # seconds of a product that has full speed


def checksum(vector: Tensor) -> int:
    """Return an integer below 2^64 that distinguishes vectors bit for bit.

    The checksum is the sum of (2 i + 1) b_i modulo 2^64, where b_i are the values' bits as 32-bit
    integers. Integer sums do not depend on their order. The checksum always detects a change of one
    value or a swap of two, since neither changes the sum by a multiple of 2^64. Other different
    vectors collide with a chance of about 2^-64. It does not protect against deliberate collisions.

    vector: (n,) fp32, on any device; n below 2^31.
    """
    bits = vector.detach().view(torch.int32)  # (n,)
    total = torch.zeros((), dtype=torch.int64, device=vector.device)
    for start in range(0, len(bits), _CHUNK):
        chunk = bits[start : start + _CHUNK].to(torch.int64)
        end = start + len(chunk)
        factors = 2 * torch.arange(start, end, device=vector.device) + 1
        total += (chunk * factors).sum()
    return int(total) % 2**64


def checksum_of_all(weights: Tensor, ranks: Ranks) -> str:
    """Return the checksum of weights (n,) that all ranks have, in 16 hexadecimal digits.

    NMTError if they differ.
    """
    checksums: list[int] = ranks.gather(checksum(weights))
    if len(set(checksums)) > 1:
        raise NMTError(f"the ranks have different weights: {checksums}; use machines of one kind")
    return f"{checksums[0]:016x}"


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the FLOP/s (two per multiply-add) of the fastest of several matrix products.

    The matrices are large enough for full speed: on a CPU with 1,024 rows, on a GPU with more. The
    rate is that of this process with its threads. Processes that share a machine should measure at
    the same time. The random numbers of training do not change.
    """
    size = _SMALLEST
    while (seconds := _fastest_product(size, device, dtype)) < _LONG and size < _LARGEST:
        size *= 2
    return 2 * size**3 / seconds


def _fastest_product(size: int, device: torch.device, dtype: torch.dtype) -> float:
    """Return the seconds of a product of two square matrices; infinity if none of them works."""
    random = torch.Generator(device).manual_seed(0)
    x, weight = torch.randn(2, size, size, generator=random, device=device).to(dtype)
    products = [functools.partial(F.linear, x, weight)]
    if device.type == "cpu":
        # F.linear uses another library for fp32; which one is faster depends on the processor.
        products.append(functools.partial(onednn_product, x, weight))
    seconds = [math.inf]
    for product in products:
        # fails if this processor does not support the type, or without oneDNN
        with contextlib.suppress(AttributeError, RuntimeError):
            seconds.append(_shortest(product, device))
    return min(seconds)


def device_name(device: torch.device) -> str:
    """Return the kind of device: the GPU's model, or the CPU's instruction set."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {torch.backends.cpu.get_cpu_capability()}"


def _shortest(product: Callable[[], Tensor], device: torch.device) -> float:
    """Return the seconds of the fastest of several calls."""
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


@dataclass
class MetricsWindow:
    """Sums over the updates between two lines of the log; tensors stay on the device until then.

    A resumed run starts with an empty window, so its first metrics cover only its own updates.
    """

    losses: Tensor  # loss, nll, perhaps alignment loss; summed over target tokens of this rank
    grad_norm: Tensor  # of the last update with a finite gradient
    loss_tokens: Tensor  # target tokens of all ranks in updates with a finite gradient
    skipped: Tensor  # number of the other updates
    updates: int = 0
    lengths: LengthSums = field(default_factory=LengthSums)  # of all ranks
    own_tokens: int = 0  # both sides, of this rank
    padded_tokens: int = 0  # the same with padding
    epoch: float = 0.0  # epochs completed after the last update
    waited: float = 0.0  # seconds
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def empty(cls, device: torch.device) -> MetricsWindow:
        """Return a window without updates."""
        return cls(*torch.zeros(4, device=device))

    def take(self, updates: Iterator[Update]) -> Update:
        """Return the next update, and count the time that we waited for it."""
        asked = time.monotonic()
        update = next(updates)
        self.waited += time.monotonic() - asked
        return update

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time of a block out of the window's."""
        paused = time.monotonic()
        yield
        self.started += time.monotonic() - paused

    def count(self, update: Update, result: UpdateResult) -> None:
        """Add an update that is done."""
        bad = result.bad
        self.losses = self.losses + result.losses
        self.grad_norm = torch.where(bad > 0, self.grad_norm, result.norm)
        self.loss_tokens += update.tgt_tokens * (1 - bad)
        self.skipped += bad
        self.updates += 1
        self.lengths += update.lengths
        self.own_tokens += update.own_tokens
        self.padded_tokens += update.padded_tokens
        self.epoch = update.epoch

    def has_metrics(self) -> bool:
        """Return whether any update had a finite gradient, so that there is a mean."""
        return self.updates > 0 and bool(self.loss_tokens)

    def metrics(
        self, ranks: Ranks, flops: Callable[[LengthSums], float], machine_rate: float
    ) -> dict[str, float]:
        """Return the metrics of a `train` record; all ranks take part. This waits for the GPU.

        ranks: the processes of the run.
        flops: returns the FLOPs of training on pairs of these lengths.
        machine_rate: FLOP/s of matrix products, summed over ranks.
        """
        tokens = float(self.loss_tokens)
        loss, nll, *alignment = (total / tokens for total in ranks.sum_(self.losses).tolist())
        grad_norm = float(self.grad_norm)
        seconds = time.monotonic() - self.started
        return {
            "epoch": self.epoch,  # epochs completed
            "loss": loss,  # mean over target tokens, nats
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            # with guided alignment, its loss, without its weight; unlinked tokens count as 0
            **dict(zip(("alignment_loss",), alignment, strict=False)),
            "grad_norm": grad_norm,  # of the last update
            "tokens_per_second": (self.lengths.src + self.lengths.tgt) / seconds,  # of all ranks
            "updates_per_second": self.updates / seconds,
            # model-FLOPs utilisation: the share of the rate of plain matrix products
            "mfu": flops(self.lengths) / (seconds * machine_rate) if machine_rate else 0.0,
            "data_wait": self.waited / seconds,  # share of the time that this rank waited
            "padding": 1 - self.own_tokens / max(1, self.padded_tokens),  # share of its tokens
            "skipped_updates": int(self.skipped),  # updates whose gradient was not finite
            "updates": self.updates,
            "seconds": seconds,
        }
