"""One update: forward and backward over its micro-batches, sum over ranks, step of Adam.

Ranks agree once per update whether any of them was asked to stop or ran out of memory. Their flags
are summed together with the gradient. If one is set, the step changes nothing, on all ranks, and
neither do the steps after it, until the loop goes back to the first dropped update. So no rank has
to wait for the others before it launches a step. On a GPU the loop reads the flags an update later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.config import Recipe
from nmt.data.batches import Batch, FixedShape
from nmt.data.epochs import EncodedPairs
from nmt.data.updates import Update, fixed_shape
from nmt.distributed import Ranks
from nmt.models.base import TranslationModel
from nmt.models.device import memory_errors
from nmt.models.kernels.compiler import CompilerError, compiler_errors
from nmt.models.layers import seed_dropout
from nmt.training.flat_weights import GradientSum
from nmt.training.guidance import GUIDED_HEAD, alignment_loss
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.optimizer import Optimizer
from nmt.training.stop import StopRequest


@dataclass(frozen=True)
class Verdict:
    """What became of an update, or of several; the same on all ranks."""

    stop: bool = False
    """Whether any rank was asked to stop."""
    out_of_memory: bool = False
    """Whether any rank ran out of memory."""
    uncompiled: bool = False
    """Whether torch.compile failed on any rank."""
    save: bool = False
    """Whether any rank asks to save the training state."""
    bad_in_a_row: int = 0
    """How many updates in a row had a gradient that was not finite, up to this one."""

    @property
    def dropped(self) -> bool:
        """Whether the step was not taken; then nothing has changed."""
        return self.stop or self.out_of_memory or self.uncompiled


@dataclass(frozen=True)
class Outcome:
    """The outcome of an update, on the device."""

    norm: Tensor  # of the gradient, scalar
    loss: Tensor  # scalars: summed over this rank's target tokens, 0 if the gradient was bad
    nll: Tensor
    bad: Tensor  # 1.0 if the gradient was not finite, else 0.0
    said: Tensor  # (5,) on the host: the values of a `Verdict`, in their order
    written: torch.cuda.Event | None = None  # on a GPU, when they are there
    alignment: Tensor | None = None  # the alignment loss, like `loss`, with guided alignment

    def verdict(self) -> Verdict:
        """Wait for the update, and tell what became of it."""
        if self.written is not None:
            self.written.synchronize()
        *flags, bad_in_a_row = map(int, self.said.tolist())
        stop, out_of_memory, uncompiled, save = map(bool, flags)
        return Verdict(stop, out_of_memory, uncompiled, save, bad_in_a_row)


class UpdateRunner:
    """Runs the updates of one model."""

    def __init__(
        self,
        model: TranslationModel,
        optimizer: Optimizer,
        ranks: Ranks,
        recipe: Recipe,
        device: torch.device,
        stop: StopRequest,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.ranks = ranks
        self.config = config = recipe.training
        self.device = device
        self.stop = stop
        # Other subwords and other text make sentences longer than the longest one in the data.
        is_longer = config.subword_dropout or recipe.augment.any
        self._fixed = config.compiles and model.is_padding_free and not is_longer
        self._shape: FixedShape | None = None
        # Uncompiled, a GPU moves 28 bytes for each logit, and 6 compiled.
        self._compiles_loss = config.compiles_loss
        self._to_compile = self._compiles_loss
        if config.compiles:
            for block in model.blocks:  # for one shape, or for any
                block.compile(dynamic=not self._fixed)
        self._gradient_sum = GradientSum(optimizer.weights, ranks)
        self._dropping = torch.zeros((), device=device)  # 1.0 since an update was dropped
        self.compiler_problem = ""
        """How torch.compile failed on this rank; until `stop_compiling`, updates are dropped."""

    def run(self, update: Update, number: int, *, save: bool = False) -> Outcome:
        """Run update number `number`, counted from 1; `save`: ask to save the training state."""
        # of the loss, the nll and, with guided alignment, the alignment loss
        sums = torch.zeros(3 if self.config.guided_alignment else 2, device=self.device)
        stop = out_of_memory = False
        for index, batch in enumerate(update.batches):
            stop = self.stop()
            if stop or self.compiler_problem:
                break
            self._seed_dropout(number, index)
            self._gradient_sum.begin(last=index == len(update.batches) - 1)
            try:
                with self._errors(), self._compiling():
                    losses = self._forward(batch.to(self.device))
                    self._backward(losses, update.tgt_tokens)
            except MemoryError:
                if self._gradient_sum.is_broken:
                    raise
                out_of_memory = True
                break
            except CompilerError as error:
                self.compiler_problem = str(error)
                break
            for total, of_batch in zip(sums, losses, strict=True):
                total += of_batch.detach()
            del losses, of_batch  # and the graph that they hold
        self._to_compile = False
        flags = torch.zeros(4, device=self.device)
        uncompiled = bool(self.compiler_problem)
        for place, is_set in enumerate((stop, out_of_memory, uncompiled, save)):
            if is_set:
                flags[place] = 1.0
        self._gradient_sum.finish(flags)  # over ranks
        self._dropping = torch.maximum(self._dropping, flags[:3].amax().clamp(max=1.0))
        norm = self.optimizer.step(number, dropped=self._dropping)
        bad = (~norm.isfinite()).float()
        loss, nll, *alignment = sums.masked_fill(bad > 0, 0.0)
        said, written = torch.cat((flags, self.optimizer.guard.bad_in_a_row)), None
        if said.is_cuda:
            said = torch.empty(5, pin_memory=True).copy_(said, non_blocking=True)
            written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            written.record()
        return Outcome(norm, loss, nll, bad, said, written, *alignment)

    def go_on(self) -> None:
        """Take steps again, after the loop has gone back to the first dropped update."""
        self._dropping.zero_()

    def stop_compiling(self) -> str:
        """Compute without torch.compile from now on, on all ranks; return what to say."""
        problem = next(filter(None, self.ranks.gather(self.compiler_problem)))
        self.compiler_problem = ""
        self._compiles_loss = self._fixed = False
        for block in self.model.blocks:
            block._compiled_call_impl = None  # which `compile` has set
        return f"{problem}; training goes on uncompiled, which is slower and takes more memory"

    def _forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the losses of a micro-batch, summed over target tokens.

        They are the smoothed loss, the nll, which has no gradient, and with links the alignment
        loss.
        """
        alignment: tuple[Tensor, ...] = ()
        if batch.links is None:
            states = self.model(batch)
        else:
            states, queries, keys = self.model.forward_with_head(batch, GUIDED_HEAD)
            alignment = (alignment_loss(queries, keys, batch),)
        loss, nll = smoothed_cross_entropy(
            states,
            self.model.output_projection,
            batch.targets,
            self.config.label_smoothing,
            bias=self.model.output_bias,
            compiled=self._compiles_loss,
        )
        return loss, nll, *alignment

    def _backward(self, losses: Sequence[Tensor], num_tokens: int) -> None:
        """Add a micro-batch's share of the update's mean gradient.

        Every rank knows the number of the update's tokens in advance, so gradients are only summed.
        """
        loss, _, *alignment = losses
        for more in alignment:
            loss = loss + self.config.guided_alignment * more
        # If the loss is not finite, make the gradient NaN on all ranks, so that the update is
        # skipped.
        share = torch.where(loss.isfinite(), self.optimizer.guard.scale / num_tokens, math.nan)
        scaled: Tensor = loss * share
        scaled.backward()  # type: ignore[no-untyped-call]

    def _seed_dropout(self, number: int, micro_batch: int) -> None:
        """Make dropout a function of seed, update, rank and micro-batch.

        So resuming needs no state of random generators.
        """
        key = (self.config.seed, number - 1, self.ranks.rank, micro_batch)
        seed_dropout(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))

    def rehearse_sum(self) -> None:
        """Sum the gradient, which is 0, over ranks: NCCL takes its memory in the first sum."""
        self._gradient_sum.finish(torch.zeros(4, device=self.device))

    def fits(self, batch: Batch, *, eager: bool = False) -> bool:
        """Return whether a batch fits into memory, perhaps uncompiled; nothing changes.

        If torch.compile fails, memory is not to blame: the next update is then dropped.
        """
        try:
            with self.eager() if eager else nullcontext(), self._errors():
                self._backward(self._forward(batch.to(self.device)), batch.num_tokens)
        except MemoryError:
            return False
        except CompilerError as error:
            self.compiler_problem = str(error)
        finally:
            self.optimizer.weights.begin_gradient()
        return True

    def shape(
        self, pairs: EncodedPairs, *, world_size: int, micro_batch_tokens: int, longest: int
    ) -> FixedShape | None:
        """Return the fixed shape of batches (see `FixedShape.of`); None if any will do."""
        if not self._fixed:
            return None
        shape = fixed_shape(
            pairs,
            batch_tokens=self.config.batch_tokens,
            seed=self.config.seed,
            world_size=world_size,
            micro_batch_tokens=micro_batch_tokens,
            longest=longest,
        )
        if shape != self._shape:
            torch.compiler.reset()  # what was compiled for another shape will not come again
            self._shape = shape
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
