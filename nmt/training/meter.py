"""The meter of a run: what has happened since the last line of the log, and its figures."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.batches import LengthSums
from nmt.data.stream import Update
from nmt.training.distributed import Ranks
from nmt.training.update import Outcome


@dataclass(frozen=True)
class Figures:
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

    A run that goes on begins with an empty window: its first figures are of the updates since then.
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

    def has_figures(self) -> bool:
        """Tell whether any update had a finite gradient, so that there is a mean."""
        return self.updates > 0 and bool(self.loss_tokens)

    def figures(
        self, ranks: Ranks, flops: Callable[[LengthSums], float], machine_rate: float
    ) -> Figures:
        """Return the figures; all ranks take part. This waits for a GPU to be done.

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
        return Figures(
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
