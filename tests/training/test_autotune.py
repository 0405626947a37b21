"""What a recipe leaves open is chosen by trying it, written down, and kept on resuming."""

import random
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import toy_training
from mishaps import pretend_to_compile
from torch import Tensor
from torch._inductor.exc import InductorError

from nmt.config.fields import Value
from nmt.data.folder import DataFolder
from nmt.errors import UsageError
from nmt.models.device import default_precision, use_tf32
from nmt.models.kernels.compiler import CompilerError
from nmt.models.kernels.linear import use_library
from nmt.runs.run_folder import RunFolder
from nmt.system.distributed import Ranks
from nmt.training import autotune, loss
from nmt.training.autotune import is_clearly_faster
from nmt.training.update import TrainStep

Capture = pytest.CaptureFixture[str]
NO_COMPILER = "Failed to find C compiler; install gcc"


def let_be(toy: toy_training.Toy, *, bf16: float = 1.0, onednn: float = 1.0) -> None:
    """Pretend that these are so many times as fast here as torch's products in fp32."""

    def is_faster(_: partial[None], other: partial[None], *, gain: float) -> bool:
        way = other.args[0]
        if isinstance(way, torch.Tensor):  # a product
            return bf16 >= gain
        return (onednn if way == "onednn" else bf16) >= gain

    toy.patch.setattr(autotune, "is_clearly_faster", is_faster)
    toy.patch.setattr(autotune, "_NARROWEST", 32)


def chosen(run: Path) -> dict[str, Value]:
    """Return the values of training that a run has written down."""
    values: dict[str, Value] = toy_training.config_of(run)["training"]
    return values


@pytest.mark.parametrize(
    ("speed", "narrowest", "precision"),
    [(1.21, 32, "bf16"), (1.19, 32, "fp32"), (1.21, 33, "fp32")],  # of a narrow model it varies
)
def test_a_cpu_trains_in_bf16_if_a_trial_is_1_2_times_as_fast(
    toy: toy_training.Toy, capsys: Capture, speed: float, narrowest: int, precision: str
) -> None:
    let_be(toy, bf16=speed)
    toy.patch.setattr(autotune, "_NARROWEST", narrowest)
    assert chosen(toy.train(precision="auto", max_updates=1))["precision"] == precision
    assert f"no --precision given: taking {precision}, because" in capsys.readouterr().err


class Clock:
    """CPU time that work takes, with the noise of a busy machine."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self._random = random.Random(seed)

    def work(self, seconds: float) -> None:
        """Take 10 % more or less, and now and then three times as long."""
        noise = self._random.gauss(1, 0.1) * (3 if self._random.random() < 0.05 else 1)
        self.now += seconds * max(0.5, noise)


@pytest.mark.parametrize(("speed", "is_faster"), [(1.0, False), (1.7, True)])
def test_a_choice_is_the_same_at_every_start(
    monkeypatch: pytest.MonkeyPatch, speed: float, is_faster: bool
) -> None:
    found = []
    for seed in range(100):
        clock = Clock(seed)
        monkeypatch.setattr(time, "thread_time", lambda clock=clock: clock.now)
        usual, other = partial(clock.work, speed), partial(clock.work, 1.0)
        found.append(is_clearly_faster(usual, other, gain=1.3))
    assert found.count(is_faster) >= 99


def test_rounds_run_on_one_thread_whose_time_counts() -> None:
    threads = []
    torch.set_num_threads(3)
    usual = lambda: threads.append(torch.get_num_threads())  # noqa: E731
    assert not is_clearly_faster(usual, lambda: None, gain=1e9)
    assert set(threads) == {1}
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    ("key", "library", "value"), [("precision", "bf16", "bf16"), ("matmul", "onednn", "onednn")]
)
def test_a_resumed_run_keeps_its_choice(
    toy: toy_training.Toy, capsys: Capture, key: str, library: str, value: str
) -> None:
    if library == "onednn" and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("needs a torch with oneDNN")
    values: dict[str, Value] = {key: "auto", "max_updates": 4}
    let_be(toy, **{library: 2.0})
    whole = toy.train("whole", **values)
    run = toy.stopped_after(2, **values)
    capsys.readouterr()
    let_be(toy)
    assert chosen(toy.train(**values))[key] == value
    assert "no --precision" not in capsys.readouterr().err
    toy_training.assert_same_run(run, whole)
    use_library("torch")


def test_a_trial_trains_in_all_ways_and_changes_nothing_of_the_run(toy: toy_training.Toy) -> None:
    ways = []

    def noted(usual: partial[None], other: partial[None], **_: float) -> bool:
        for way in (usual, other):
            way()
            ways.append(way.args[0])
        return len(ways) == 4  # products in bf16 are faster, so that models are tried

    plain = toy.train("plain", max_updates=2, dropout=0.1)
    toy.patch.setattr(autotune, "is_clearly_faster", noted)
    toy.patch.setattr(autotune, "in_a_copy", lambda trial: trial())
    toy.patch.setattr(autotune, "has_onednn", lambda: True)
    toy.patch.setattr(autotune, "_NARROWEST", 32)
    tried = toy.train("tried", precision="auto", matmul="auto", max_updates=2, dropout=0.1)
    libraries, products, models = ways[:2], ways[2:4], ways[4:]
    assert libraries == ["torch", "onednn"]
    assert [one.dtype for one in products] == [torch.float32, torch.bfloat16]
    assert [model.output_projection.dtype for model in models] == [torch.float32, torch.bfloat16]
    toy_training.assert_same_run(tried, plain)


@pytest.mark.parametrize(
    ("device", "capability", "precision"),
    [("cuda", (8, 0), "bf16"), ("cuda", (7, 5), "fp32"), ("cpu", (8, 0), "fp32")],
)
def test_precision_on_devices(
    monkeypatch: pytest.MonkeyPatch, device: str, capability: tuple[int, int], precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert default_precision(torch.device(device)) == precision


class TwoRanks(Ranks):
    """Two processes, of which the other one says this."""

    other = ""

    def gather(self, value: object) -> list[object]:
        return [value, self.other]


def test_without_a_compiler_on_any_rank_none_compiles_and_one_warning_says_why(
    toy: toy_training.Toy, capsys: Capture
) -> None:
    pretend_to_compile(toy.patch)
    ranks = TwoRanks(rank=0, local_rank=0, local_world_size=2, world_size=2)
    given = "true", torch.device("cpu"), ranks
    assert autotune._if_it_works(*given, is_asked=False) == "true"
    assert not capsys.readouterr().err
    toy.patch.setattr(TwoRanks, "other", NO_COMPILER)
    assert autotune._if_it_works(*given, is_asked=False) == "false"
    (said,) = capsys.readouterr().err.splitlines()
    for words in ("runs uncompiled", "slower", "rank 1: ", "install gcc"):
        assert words in said


def test_compiling_that_does_not_work_is_refused_with_what_helps(toy: toy_training.Toy) -> None:
    pretend_to_compile(toy.patch, NO_COMPILER)
    for asked in ("true", "loss"):
        with pytest.raises(UsageError, match=f"compile={asked}, .*install gcc.*compile=false"):
            toy.train(compile=asked)
    assert chosen(toy.train(compile="false", max_updates=1))["compile"] == "false"


def test_a_run_that_was_compiled_goes_on_without_a_compiler(toy: toy_training.Toy) -> None:
    pretend_to_compile(toy.patch)
    run = toy.train(compile="loss", max_updates=2)
    assert chosen(run)["compile"] == "loss"
    pretend_to_compile(toy.patch, NO_COMPILER)
    toy.train(compile="auto", max_updates=4)
    assert chosen(run)["compile"] == "false"
    assert re.search("compile .*'loss' .*'false'", (run / "train.log").read_text())
    pretend_to_compile(toy.patch)
    toy.train(compile="loss", max_updates=6)  # whoever asks for it gets it
    assert [record["compile"] for record in toy_training.metrics(run, "start")] == [
        "loss",
        "false",
        "loss",
    ]


# --- the compiler fails after it has worked


def test_when_the_compiler_fails_the_run_ends_and_goes_on_without_it(toy: toy_training.Toy) -> None:
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
    assert toy_training.status(run)["status"] == "failed"
    toy.train(max_updates=6)
    toy_training.assert_same_weights(run, expected)


def test_a_size_that_is_tried_uncompiled_has_the_plain_loss(toy: toy_training.Toy) -> None:
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


# --- TF32


def test_tf32_on_a_cpu_computes_as_fp32_and_says_so(toy: toy_training.Toy, capsys: Capture) -> None:
    plain = toy.train("plain", precision="fp32", max_updates=4)
    capsys.readouterr()
    run = toy.stopped_after(2, precision="tf32", max_updates=4)
    assert "TF32" in capsys.readouterr().err
    toy.train(precision="tf32", max_updates=4)
    assert chosen(run)["precision"] == "tf32"
    assert "tf32 on cpu" in (run / "train.log").read_text()
    toy_training.assert_same_run(run, plain)
    with pytest.raises(UsageError, match=r"precision .*'tf32' .*'fp32'"):
        toy.train(precision="fp32", max_updates=6)


def test_a_gpu_multiplies_in_tf32_only_if_that_is_the_precision() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        for precision, name in (("tf32", "high"), ("fp32", "highest"), ("bf16", "highest")):
            use_tf32(torch.device("cuda"), precision)
            # torch.compile reads this one, too
            assert torch.get_float32_matmul_precision() == name
            assert torch.backends.cuda.matmul.allow_tf32 is (precision == "tf32")
            assert torch.backends.cudnn.allow_tf32 is (precision == "tf32")
        use_tf32(torch.device("cpu"), "tf32")
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize("values", [{"precision": "bf16"}, {"compile": "true"}])
def test_only_fp32_that_is_not_compiled_has_a_choice_of_libraries(
    toy: toy_training.Toy, values: dict[str, str]
) -> None:
    let_be(toy, onednn=2.0)
    pretend_to_compile(toy.patch)
    toy.patch.setattr(torch.nn.Module, "compile", lambda *_, **__: None)
    assert chosen(toy.train(matmul="auto", max_updates=1, **values))["matmul"] == "torch"


@pytest.mark.parametrize(
    ("ranks", "cores", "asked", "threads"),
    [
        (2, 8, 0, 3),  # as it was
        (2, 2, 0, 2),  # on a machine with fewer cores
        (1, 8, 0, 8),  # by another number of processes
        (2, 8, 5, 5),  # whoever asks for a number gets it
    ],
)
def test_threads_stay_what_they_were_where_processes_and_cores_allow(
    tmp_path: Path, ranks: int, cores: int, asked: int, threads: int
) -> None:
    run, data = RunFolder(tmp_path), DataFolder.open(toy_training.prepare_toy(tmp_path))
    run.write_config(toy_training.recipe(threads=3), data, ("", ""), ranks=2, command="")
    filled_in = run.fill_in_choices(toy_training.recipe(threads=asked).training, ranks, cores)
    assert (filled_in.threads or cores) == threads
    assert not run.changes(toy_training.recipe(threads=threads))[1]
