"""The meter of a run: what has happened since the last line of the log, and its metrics.

A checksum of weights, computed where they are, that is the same on every device.

How fast this machine multiplies matrices: what model-FLOPs utilisation is a share of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import LengthSums
from nmt.data.stream import Update
from nmt.distributed import Ranks
from nmt.errors import NMTError
from nmt.models.device import dtype_of
from nmt.models.kernels.linear import onednn_product
from nmt.training.update import Outcome

# Values looked at in one go: 32 MB of int64, and a few times that while they are summed.
_CHUNK = 1 << 22


def checksum(vector: Tensor) -> str:
    """Return 16 hexadecimal digits that tell vectors apart bit for bit.

    The values' bits, as integers b_i of 32 bits, are summed with odd weights, (2 i + 1) b_i modulo
    2^64: their sum, and twice the sum weighted by position. Integers add up to the same in any
    order. A change of one value is always noticed, and so is a swap of two different ones, since
    neither can change the sum by a multiple of 2^64. Vectors that differ in many values are
    mistaken for each other by chance alone, about once in 2^64. It is no defence against somebody
    who looks for such a case.

    Args:
        vector: (n,) fp32, on any device; n below 2^31.
    """
    bits = vector.detach().view(torch.int32)  # (n,)
    total = torch.zeros((), dtype=torch.int64, device=vector.device)
    for start in range(0, len(bits), _CHUNK):
        chunk = bits[start : start + _CHUNK].to(torch.int64)
        end = start + len(chunk)
        weights = torch.arange(2 * start + 1, 2 * end, 2, device=vector.device)
        total += (chunk * weights).sum()
    return f"{int(total) % 2**64:016x}"


def checksum_of_all(weights: Tensor, ranks: Ranks) -> str:
    """Return the checksum of weights (n,) that all ranks have.

    Raises:
        NMTError: if they differ.
    """
    found = ranks.gather(checksum(weights))
    if len(set(found)) > 1:
        raise NMTError(f"the weights of the ranks differ: {found}; train on machines of one kind")
    return str(found[0])


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


@dataclass(frozen=True)
class Metrics:
    """What a window comes to, under the names of a `train` record."""

    epoch: float  # complete
    loss: float  # mean over target tokens, nats
    nll: float
    perplexity: float
    grad_norm: float  # of the last update
    tokens_per_second: float  # source and target, of all ranks, without padding
    updates_per_second: float
    mfu: float  # model-FLOPs utilisation: share of the rate of plain matrix products
    data_wait: float  # share of the time in which this rank's loop waited for its next update
    padding: float  # share of this rank's tokens that is padding
    skipped_updates: int  # whose gradient was not finite
    updates: int  # that all this is over
    seconds: float


@dataclass
class Window:
    """Counts what happens between two lines of the log; tensors stay on the device until then.

    A run that goes on begins with an empty window: its first metrics are of the updates since then.
    """

    loss: Tensor  # summed over target tokens of this rank
    nll: Tensor
    grad_norm: Tensor  # of the last update where it was finite
    loss_tokens: Tensor  # target tokens of all ranks in updates with a finite gradient
    skipped: Tensor  # the other updates
    updates: int = 0
    lengths: LengthSums = dataclasses.field(default_factory=LengthSums)  # of all ranks
    own_tokens: int = 0  # both sides, of this rank
    padded_tokens: int = 0  # the same with padding
    epoch: float = 0.0  # complete after the last update
    waited: float = 0.0  # seconds
    started: float = dataclasses.field(default_factory=time.monotonic)

    @classmethod
    def empty(cls, device: torch.device) -> Window:
        """Return a window in which nothing has happened."""
        return cls(*torch.zeros(5, device=device))

    def take(self, updates: Iterator[Update]) -> Update:
        """Return the next update, and count the time that it was waited for."""
        asked = time.monotonic()
        update = next(updates)
        self.waited += time.monotonic() - asked
        return update

    def count(self, update: Update, outcome: Outcome) -> None:
        """Count an update that is done."""
        bad = outcome.bad
        self.loss += outcome.loss
        self.nll += outcome.nll
        self.grad_norm = torch.where(bad > 0, self.grad_norm, outcome.norm)
        self.loss_tokens += update.tgt_tokens * (1 - bad)
        self.skipped += bad
        self.updates += 1
        self.lengths += update.lengths
        self.own_tokens += update.own_tokens
        self.padded_tokens += update.padded_tokens
        self.epoch = update.epoch

    def has_metrics(self) -> bool:
        """Tell whether any update had a finite gradient, so that there is a mean."""
        return self.updates > 0 and bool(self.loss_tokens)

    def metrics(
        self, ranks: Ranks, flops: Callable[[LengthSums], float], machine_rate: float
    ) -> Metrics:
        """Return the metrics; all ranks take part. This waits for a GPU to be done.

        Args:
            ranks: the processes of the run.
            flops: operations of training on pairs of some lengths.
            machine_rate: FLOP/s of matrix products, summed over ranks.
        """
        ranks.sum_(self.loss)
        ranks.sum_(self.nll)
        loss, nll = (float(x) / float(self.loss_tokens) for x in (self.loss, self.nll))
        grad_norm = float(self.grad_norm)
        seconds = time.monotonic() - self.started
        return Metrics(
            epoch=self.epoch,
            loss=loss,
            nll=nll,
            perplexity=math.exp(min(nll, 700.0)),
            grad_norm=grad_norm,
            tokens_per_second=(self.lengths.src + self.lengths.tgt) / seconds,
            updates_per_second=self.updates / seconds,
            mfu=flops(self.lengths) / (seconds * machine_rate) if machine_rate else 0.0,
            data_wait=self.waited / seconds,
            padding=1 - self.own_tokens / max(1, self.padded_tokens),
            skipped_updates=int(self.skipped),
            updates=self.updates,
            seconds=seconds,
        )
