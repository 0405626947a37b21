"""One update: forward, loss and backward over its micro-batches, sum over ranks, Adam's step.

Ranks agree once per update whether any of them was asked to stop or ran out of memory. Their flags
are summed together with the gradient. If one is set, the step changes nothing, on all ranks, and
neither do the steps after it, until the loop goes back to the first dropped update. So no rank has
to wait for the others before it launches a step. On a GPU the loop reads the flags an update later.

For example, update 7 has two micro-batches on each rank, and rank 1 runs out of memory in its
second. The flags are stop, out of memory, save:

    rank 0                                   rank 1
    first micro-batch                        first micro-batch
    second: sums of buckets start while      second: out of memory. Nothing is sent yet.
        the backward pass fills them
    `finish` starts the last ones            `finish` starts all sums that have not started,
                                                 with what is in the vector
    sends the flags 0 0 0                    sends the flags 0 1 0
    both have the sum 0 1 0, so `_dropping` is 1, and Adam changes nothing
    on a GPU, both launch update 8 before they read these flags; it changes nothing either
    both read 0 1 0, go back to the state before update 7, and call `go_on`: `_dropping` is 0
    both halve their micro-batches, and run update 7 again

So both ranks start the same sums in the same order, whatever happens to one of them. A sum that
rank 1 left out would let rank 0 wait for it. The gradient of such an update is worth nothing, but
nobody uses it. A stop goes the same way with the flags 1 0 0. Then both save the state before
update 7 and end.

It goes another way only if memory is too small for a sum itself (`GradientSum.is_broken`): this
rank can send no flag, and ends. `nmt.system.distributed` says what the others do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches import Batch, FixedShape, SplitBounds
from nmt.data.epochs import EncodedPairs
from nmt.data.updates import Update, fixed_shape
from nmt.models.base import TranslationModel
from nmt.models.device import memory_errors
from nmt.models.kernels.compiler import compiler_errors
from nmt.models.layers import seed_dropout
from nmt.system.distributed import Ranks
from nmt.training.flat_weights import GradientSum
from nmt.training.loss import losses_of
from nmt.training.optimizer import Optimizer
from nmt.training.stop_request import StopRequest


class Outcome(NamedTuple):
    """What became of an update, the same on all ranks."""

    stop: int  # how many ranks were asked to stop
    out_of_memory: int  # how many ran out of memory
    save: int  # how many ask to save the training state
    bad_in_a_row: int
    """How many updates in a row had a gradient that was not finite, up to this one."""

    @property
    def dropped(self) -> bool:
        """Whether the step was not taken, for one of the first two; then nothing has changed."""
        return bool(self.stop or self.out_of_memory)


@dataclass(frozen=True)
class UpdateResult:
    """What an update returns: its losses, on the device, and what became of it."""

    norm: Tensor  # of the gradient, scalar
    losses: Tensor
    """(2,) or, with guided alignment, (3,): loss, nll and alignment loss.

    They are summed over this rank's target tokens, and 0 if the gradient was bad.
    """
    bad: Tensor  # 1.0 if the gradient was not finite, else 0.0
    flags: Tensor  # (4,) on the host: the fields of `Outcome`
    written: torch.cuda.Event | None = None  # on a GPU, when the flags are there

    @cached_property
    def outcome(self) -> Outcome:
        """What became of the update. Reading it waits for the update."""
        if self.written is not None:
            self.written.synchronize()
        return Outcome(*map(int, self.flags.tolist()))


class TrainStep:
    """Trains one model: an update runs its micro-batches, sums over ranks and steps Adam."""

    def __init__(
        self,
        model: TranslationModel,
        optimizer: Optimizer,
        ranks: Ranks,
        device: torch.device,
        stop: StopRequest,
        *,
        keeps_lengths: bool = True,
    ) -> None:
        """Prepare for updates.

        keeps_lengths: whether no sentence gets longer than it is in the data.
        """
        self.model = model
        self.optimizer = optimizer
        self.ranks = ranks
        self.config = config = optimizer.config
        self.device = device
        self.stop = stop
        self._fixed = config.compiles and model.is_padding_free and keeps_lengths
        self.fixed_shape: FixedShape | None = None
        """Of all micro-batches; None: any will do."""
        # Uncompiled, a GPU moves 28 bytes for each logit, and 6 compiled.
        self._compiles_loss = config.compiles_loss
        self._to_compile = self._compiles_loss
        if config.compiles:
            for block in model.blocks:  # for one shape, or for any
                block.compile(dynamic=not self._fixed)
        self._gradient_sum = GradientSum(optimizer.weights, ranks)
        self._dropping = torch.zeros((), device=device)  # 1.0 since an update was dropped

    def run(self, update: Update, number: int, *, save: bool = False) -> UpdateResult:
        """Run update number `number`, counted from 1; `save`: ask to save the training state."""
        # of the loss, the nll and, with guided alignment, the alignment loss
        sums = torch.zeros(3 if self.config.guided_alignment else 2, device=self.device)
        stop = out_of_memory = False
        for index, batch in enumerate(update.batches):
            stop = self.stop()
            if stop:
                break  # the other micro-batches are not needed: the update is dropped
            self._seed_dropout(number, index)
            self._gradient_sum.begin(last=index == len(update.batches) - 1)
            try:
                with self._errors(), self._compiling():
                    losses = self._compute(batch.to(self.device), update.tgt_tokens)
            except MemoryError:
                if self._gradient_sum.is_broken:  # no flag can follow a sum that is missing
                    raise
                out_of_memory = True
                break
            for total, of_batch in zip(sums, losses, strict=True):
                total += of_batch
        self._to_compile = False
        flags = torch.zeros(3, device=self.device)
        for place, is_set in enumerate((stop, out_of_memory, save)):
            if is_set:  # so that nothing is sent to a GPU in most updates
                flags[place] = 1.0
        self._gradient_sum.finish(flags)  # over ranks
        # Once an update is dropped, so are those launched after it, until `go_on`. Flags are sums
        # over ranks, so they may exceed 1.
        self._dropping = torch.maximum(self._dropping, flags[:2].amax().clamp(max=1.0))
        norm = self.optimizer.step(number, dropped=self._dropping)
        bad = (~norm.isfinite()).float()
        flags, written = torch.cat((flags, self.optimizer.loss_scaler.bad_in_a_row)), None
        if flags.is_cuda:  # they travel while the loop goes on
            flags = torch.empty(4, pin_memory=True).copy_(flags, non_blocking=True)
            written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            written.record()
        # Filled, not multiplied: NaN * 0 is NaN.
        return UpdateResult(norm, sums.masked_fill(bad > 0, 0.0), bad, flags, written)

    def go_on(self) -> None:
        """Take steps again, after the loop has gone back to the first dropped update."""
        self._dropping.zero_()

    def _compute(self, batch: Batch, num_tokens: int) -> tuple[Tensor, ...]:
        """Run forward and backward, and return the losses without the graph that they hold.

        num_tokens: of the update.
        """
        smoothing = self.config.label_smoothing
        losses = losses_of(self.model, batch, smoothing, compiled=self._compiles_loss)
        self._backward(losses, num_tokens)
        return tuple(of_batch.detach() for of_batch in losses)

    def _backward(self, losses: Sequence[Tensor], num_tokens: int) -> None:
        """Add a micro-batch's share of the update's mean gradient.

        Every rank knows the number of the update's tokens in advance, so gradients are only summed.
        """
        loss, _, *alignment = losses
        for more in alignment:
            loss = loss + self.config.guided_alignment * more
        # If the loss is not finite, make the gradient NaN on all ranks, so that the update is
        # skipped.
        scale = self.optimizer.loss_scaler.scale
        share = torch.where(loss.isfinite(), scale / num_tokens, math.nan)
        scaled: Tensor = loss * share
        scaled.backward()  # type: ignore[no-untyped-call]

    def _seed_dropout(self, number: int, micro_batch: int) -> None:
        """Make dropout a function of seed, update, rank and micro-batch.

        So resuming needs no state of random generators.
        """
        key = (self.config.seed, number - 1, self.ranks.rank, micro_batch)
        seed_dropout(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]) >> 1)

    def rehearse_sum(self) -> None:
        """Sum the gradient, which is 0, over ranks: NCCL takes its memory in the first sum."""
        self._gradient_sum.finish(torch.zeros(3, device=self.device))

    def fits(self, batch: Batch, *, eager: bool = False) -> bool:
        """Return whether a batch fits into memory, perhaps uncompiled; nothing changes."""
        try:
            with self.eager() if eager else nullcontext(), self._errors():
                self._compute(batch.to(self.device), batch.num_tokens)
        except MemoryError:
            return False
        finally:
            self.optimizer.weights.begin_gradient()
        return True

    def shape(self, pairs: EncodedPairs, bounds: SplitBounds) -> FixedShape | None:
        """Return the fixed shape of batches (see `FixedShape.for_updates`); None if any will do."""
        if not self._fixed:
            return None
        config = self.config
        shape = fixed_shape(pairs, bounds, batch_tokens=config.batch_tokens, seed=config.seed)
        if shape != self.fixed_shape:
            torch.compiler.reset()  # what was compiled for another shape will not come again
            self.fixed_shape = shape
        return shape

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise MemoryError or CompilerError for what torch raises."""
        with compiler_errors() if self._compiles_loss else nullcontext(), memory_errors():
            yield

    def _compiling(self) -> AbstractContextManager[object]:
        """Let a stop end the process at once in the first update, in which layers are compiled.

        That may take minutes, and nothing needs saving yet.
        """
        return self.stop.at_once() if self._to_compile else nullcontext()

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Let model and loss run uncompiled, for batches of other shapes than in updates."""
        compiles_loss, self._compiles_loss = self._compiles_loss, False
        compiles = self.config.compiles
        try:
            with torch.compiler.set_stance("force_eager") if compiles else nullcontext():
                yield
        finally:
            self._compiles_loss = compiles_loss
