"""torch.compile fails after it has worked, or on one rank: nothing is spoilt."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from mishaps import fail_at, pretend_to_compile
from torch import Tensor
from torch._inductor import config as inductor_config
from torch._inductor.exc import InductorError
from toy_training import Toy, assert_same_weights

from nmt.models.kernels import packed_attention
from nmt.training import auto_values, loss
from nmt.training.update import UpdateRunner


def assertion_of_the_compiler() -> None:
    """As torch 2.11 has one about layers in fp32 on a GPU, with code of ours as its text."""
    compiler: dict[str, Any] = {"__name__": "torch._dynamo.variables"}
    exec("def trace(): raise AssertionError('\\nfrom user code:\\n  x = 1')", compiler)
    compiler["trace"]()


def error_of_the_compiler() -> None:
    raise InductorError(RuntimeError("Failed to find C compiler"), None)


@pytest.mark.parametrize(
    ("micro_batch", "fail_by", "said"),
    [
        (2, error_of_the_compiler, "--set compile=false"),  # when the gradient is partly there
        (3, error_of_the_compiler, "--set compile=false"),
        (
            1,
            assertion_of_the_compiler,
            "AssertionError in torch._dynamo.variables; another release",
        ),
    ],
)
def test_when_the_compiler_fails_the_update_comes_again_without_it(
    toy: Toy, micro_batch: int, fail_by: Callable[[], None], said: str
) -> None:
    expected = toy.undisturbed(max_updates=3)
    pretend_to_compile(toy.patch)
    backward, calls = UpdateRunner._backward, itertools.count(1)

    def fail(self: UpdateRunner, losses: Sequence[Tensor], num_tokens: int) -> None:
        backward(self, losses, num_tokens)
        if next(calls) == micro_batch:
            toy.patch.setattr(packed_attention._kernels, "attend_sentences", fail)
            fail_by()

    toy.patch.setattr(UpdateRunner, "_backward", fail)
    run = toy.train(compile="loss", max_updates=3)
    assert_same_weights(run, expected)
    log = (run / "train.log").read_text()
    assert log.count("uncompiled") == 1
    assert said in log
    assert packed_attention._kernels.attend_sentences is None  # the kernel is compiled, too


def test_a_compiler_that_fails_while_sizes_are_tried_spoils_no_update(toy: Toy) -> None:
    expected = toy.undisturbed(max_updates=3)
    pretend_to_compile(toy.patch)
    run = UpdateRunner.run

    def try_first(self: UpdateRunner, update: Any, number: int, *, save: bool) -> Any:
        if number == 1 and self._compiles_loss:
            with toy.patch.context() as patch:
                fail_at(patch, InductorError(RuntimeError("Triton"), None), tokens=0)
                assert self.fits(update.batches[0])  # into memory
        return run(self, update, number, save=save)

    toy.patch.setattr(UpdateRunner, "run", try_first)
    tried = toy.train(compile="loss", max_updates=3)
    assert_same_weights(tried, expected)
    assert "uncompiled" in (tried / "train.log").read_text()


@pytest.mark.slow  # tracing the layers takes ten seconds
def test_layers_that_a_real_compiler_refuses_train_without_it(toy: Toy) -> None:
    expected = toy.train("expected", max_updates=2)
    toy.patch.setattr(auto_values, "problem_of_compiling", lambda _: "")
    torch.compiler.reset()
    with inductor_config.patch({"cpp.cxx": (None, "/nonexistent/g++")}):
        run = toy.train(compile="true", max_updates=2)
    assert_same_weights(run, expected)
    assert "No working C++ compiler" in (run / "train.log").read_text()


def test_a_size_that_is_tried_uncompiled_has_the_plain_loss(toy: Toy) -> None:
    toy.patch.setattr(auto_values, "problem_of_compiling", lambda _: "")
    compiled, ways = loss._of_chunk_for_the_compiler, []

    def noted() -> Any:
        ways.append("compiled")
        return compiled

    toy.patch.setattr(loss, "_compiled", noted)
    run = UpdateRunner.run

    def try_first(self: UpdateRunner, update: Any, number: int, *, save: bool) -> Any:
        assert self.fits(update.batches[0], eager=True) and not ways
        assert self.fits(update.batches[0]) and ways
        return run(self, update, number, save=save)

    toy.patch.setattr(UpdateRunner, "run", try_first)
    toy.train(compile="loss", max_updates=1)
