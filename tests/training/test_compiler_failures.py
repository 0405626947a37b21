"""torch.compile fails after it has worked: the run ends and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from mishaps import pretend_to_compile
from torch import Tensor
from torch._inductor.exc import InductorError
from toy_training import Toy, assert_same_weights, status

from nmt.models.kernels.compiler import CompilerError
from nmt.training import autotune, loss
from nmt.training.update import TrainStep


def test_when_the_compiler_fails_the_run_ends_and_goes_on_without_it(toy: Toy) -> None:
    expected = toy.undisturbed(max_updates=6)
    run = toy.train(max_updates=2)
    pretend_to_compile(toy.patch)
    backward = TrainStep._backward

    def fail(self: TrainStep, losses: Sequence[Tensor], num_tokens: int) -> None:
        backward(self, losses, num_tokens)  # the gradient is partly there
        raise InductorError(RuntimeError("Failed to find C compiler"), None)

    with toy.patch.context() as patch, pytest.raises(CompilerError, match="--set compile=false"):
        patch.setattr(TrainStep, "_backward", fail)
        toy.train(compile="loss", max_updates=6)
    assert status(run)["status"] == "failed"
    toy.train(max_updates=6)
    assert_same_weights(run, expected)


def test_a_size_that_is_tried_uncompiled_has_the_plain_loss(toy: Toy) -> None:
    toy.patch.setattr(autotune, "problem_of_compiling", lambda _: "")
    compiled, ways = loss._of_chunk_for_the_compiler, []

    def noted() -> Any:
        ways.append("compiled")
        return compiled

    toy.patch.setattr(loss, "_compiled", noted)
    run = TrainStep.run

    def try_first(self: TrainStep, update: Any, number: int, *, save: bool) -> Any:
        assert self.fits(update.batches[0], eager=True) and not ways
        assert self.fits(update.batches[0]) and ways
        return run(self, update, number, save=save)

    toy.patch.setattr(TrainStep, "run", try_first)
    toy.train(compile="loss", max_updates=1)
