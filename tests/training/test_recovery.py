"""Updates that go wrong: no memory, gradients that are not finite, a rank that fails."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from calls import calls_of
from command_line import Nmt
from mishaps import fail_at, spoil_gradients
from pairs import batch_of
from torch import Tensor
from toy_training import (
    ALONE,
    FP32,
    Toy,
    assert_same_run,
    assert_same_weights,
    flat,
    log_of,
    metrics,
    newest_state,
    nmt,
    python_command,
    recipe,
    run_command,
    status,
)

from nmt.config.fields import Value
from nmt.data.batches import Batch
from nmt.data.folder import DataFolder
from nmt.errors import NMTError
from nmt.models.model_file import load_model
from nmt.system import distributed
from nmt.system.distributed import Ranks
from nmt.training import memory, trainer
from nmt.training import update as update_module
from nmt.training.flat_weights import FlatWeights, GradientSum
from nmt.training.loss import losses_of
from nmt.training.memory import memory_needs
from nmt.training.update import TrainStep

PLAIN: dict[str, Value] = {"dropout": 0.0}


def assert_close(run: Path, expected: Path) -> None:
    ends = (flat(one / "last.safetensors") for one in (run, expected))
    torch.testing.assert_close(*ends, rtol=1e-3, atol=2e-5)


# --- out of memory


def test_without_memory_the_micro_batch_is_halved_for_the_same_update(toy: Toy) -> None:
    error = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
    values = PLAIN | {"max_updates": 10}
    expected = toy.undisturbed(**values)
    fail_at(toy.patch, error, tokens=80, times=2)
    run = toy.train(micro_batch_tokens=200, **values)
    events = [record["micro_batch_tokens"] for record in metrics(run, "event")]
    assert events == [100, 50]
    assert newest_state(run)[0]["progress"]["micro_batch_tokens"] == 50
    assert_close(run, expected)
    assert "50 tokens" in (run / "train.log").read_text()


def test_what_has_been_found_to_fit_is_kept_when_the_run_goes_on(toy: Toy) -> None:
    with toy.patch.context() as patch:
        fail_at(patch, MemoryError(), tokens=80)
        run = toy.train(micro_batch_tokens=200, max_updates=10)
    toy.train(micro_batch_tokens=200, max_updates=20)
    toy.train(micro_batch_tokens=150, max_updates=30)  # whoever asks for another gets it
    assert [record["micro_batch_tokens"] for record in metrics(run, "start")] == [200, 100, 150]


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (MemoryError(), NMTError, "one pair of 31"),
        (RuntimeError("shapes do not match"), RuntimeError, "shapes do not match"),
    ],
)
def test_what_smaller_batches_do_not_help_fails_the_run(
    toy: Toy, error: Exception, raised: type[Exception], message: str
) -> None:
    fail_at(toy.patch, error, tokens=0, times=100)
    with pytest.raises(raised, match=message):
        toy.train()
    assert status(toy.folder / "run")["status"] == "failed"


def test_a_batch_that_is_tried_leaves_nothing_behind(toy: Toy) -> None:
    expected = toy.train("expected", max_updates=3, **PLAIN)
    run, found = TrainStep.run, []

    def try_first(self: TrainStep, update: Any, number: int, *, save: bool) -> Any:
        found.append(self.fits(update.batches[0]))
        with toy.patch.context() as patch:
            fail_at(patch, MemoryError(), tokens=0)
            found.append(self.fits(update.batches[0]))
        return run(self, update, number, save=save)

    toy.patch.setattr(TrainStep, "run", try_first)
    tried = toy.train(max_updates=3, **PLAIN)
    assert found == [True, False] * 3
    assert_same_weights(tried, expected)


class StepWithRoom:
    """The step of a GPU with room for so many tokens, or for half of them uncompiled."""

    ranks, device = ALONE, torch.device("cuda")

    def __init__(self, room: int) -> None:
        self.room = room
        self.tried: list[int] = []
        self.eager: list[bool] = []

    def rehearse_sum(self) -> None:
        assert not self.tried  # it takes memory

    def shape(self, *_: object, **__: int) -> None:
        return None

    def fits(self, batch: Batch, *, eager: bool) -> bool:
        assert batch.src.longest == batch.tgt_in.longest == 31
        self.tried.append(batch.num_tokens)
        self.eager.append(eager)
        return batch.num_tokens <= self.room // (2 if eager else 1)


def fitting_tokens(data: Path, step: StepWithRoom, **values: Value) -> int:
    """What a run on such a GPU begins with."""
    arguments: Any = DataFolder.open(data), step
    return memory.fitting_tokens(recipe(micro_batch_tokens=0, **values), *arguments)


@pytest.mark.parametrize(
    ("compiled", "batch_tokens", "room", "tokens", "eager"),
    [
        ("false", 200, 10**6, 200, [False]),
        ("false", 200, 150, 100, [False, False]),
        ("false", 200, 40, 50, [False, False, False]),
        # Compiled, only the first size and the one that fits are.
        ("true", 400, 10**6, 400, [False]),
        ("loss", 400, 300, 100, [False, True, True, False]),  # 200 would fit compiled, too
        ("true", 400, 110, 50, [False, True, True, True, False]),
    ],
)
def test_on_a_gpu_the_micro_batch_is_what_goes_through(
    data: Path, compiled: str, batch_tokens: int, room: int, tokens: int, eager: list[bool]
) -> None:
    step = StepWithRoom(room)
    assert fitting_tokens(data, step, batch_tokens=batch_tokens, compile=compiled) == tokens
    if batch_tokens == 200:
        assert step.tried[0] == 186  # six of the longest sentences
    assert step.eager == eager


def test_a_gpu_too_small_for_one_pair_is_an_error(data: Path) -> None:
    with pytest.raises(NMTError, match=r"memory .* 31 "):
        fitting_tokens(data, StepWithRoom(0))


def test_without_memory_a_rank_ends(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Halving the micro-batch would leave the other ranks waiting for that sum.
    error = dist.DistBackendError("NCCL error in: a.cpp:1\nFailed to CUDA calloc 6291456 bytes")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Ranks, "start_sum", fail)
    ranks = Ranks(0, 0, 1, 1, under_torchrun=True)
    model, _ = load_model(model_file)
    total = GradientSum(FlatWeights(model, torch.float32), ranks)
    total.begin(last=True)
    ids = [[4, 5, 6]]
    with pytest.raises(MemoryError, match="lower micro_batch_tokens"):
        model(batch_of(ids, ids)).sum().backward()
    assert total.is_broken
    with pytest.raises(MemoryError, match="lower micro_batch_tokens"):
        total.finish(torch.zeros(4))
    assert not distributed.is_of_the_group(error)  # but this rank's own, for the others to hear
    assert distributed.is_of_the_group(dist.DistBackendError("NCCL timeout"))
    # Gloo's words, when another operation of this rank has waited in vain before.
    assert distributed.is_of_the_group(RuntimeError("Application timeout caused pair closure"))


def test_on_a_cpu_the_micro_batch_is_what_memory_allows(toy: Toy) -> None:
    room = 10**7
    toy.patch.setattr(memory, "available_bytes", lambda: room)
    toy.patch.setattr(memory, "in_a_copy", lambda needs: needs())
    calls = calls_of(toy.patch, memory, "memory_needs")
    run = toy.train(micro_batch_tokens=0, max_updates=1)
    needs = [memory_needs(*arguments)["micro-batch"] for arguments in calls]
    assert [size < room for size in needs] == [False, True]
    assert metrics(run, "start")[0]["micro_batch_tokens"] == 1_024


@pytest.mark.parametrize(("given", "asked", "used"), [("auto", 0, 2_048), ("150", 150, 150)])
def test_a_command_takes_n_or_auto(nmt: Nmt, toy: Toy, given: str, asked: int, used: int) -> None:
    config, run = toy.undisturbed(max_updates=1) / "config.toml", toy.folder / "run"
    words = "train", toy.data, "--out", run, "--config", config, "--micro-batch-tokens", given
    assert nmt(*words).status == 0
    assert f"\nmicro_batch_tokens = {asked}\n" in (run / "config.toml").read_text()
    assert metrics(run, "start")[0]["micro_batch_tokens"] == used


# --- gradients that are not finite


def test_an_update_without_a_finite_gradient_is_skipped_and_counted(toy: Toy) -> None:
    spoil_gradients(toy.patch, (3, 12, 13))
    records = {record["update"]: record for record in metrics(toy.train(log_every=1), "train")}
    assert not {3, 12, 13} & records.keys()  # they have no metrics of their own
    skipped = {update: record["skipped_updates"] for update, record in records.items()}
    assert {update: count for update, count in skipped.items() if count} == {4: 1, 14: 2}


def test_an_update_of_infinite_loss_is_skipped(toy: Toy) -> None:
    calls = itertools.count(1)

    def overflow(*arguments: Any, **options: Any) -> tuple[Tensor, Tensor]:
        loss, nll = losses_of(*arguments, **options)
        return (loss + math.inf, nll) if next(calls) == 3 else (loss, nll)

    toy.patch.setattr(update_module, "losses_of", overflow)
    (record,) = metrics(toy.train(max_updates=5, batch_tokens=100), "train")
    assert record["skipped_updates"] == 1
    assert math.isfinite(record["loss"])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, "no finite gradient in 5 .* 6; lower learning_rate"),
        ({"validate_every": 3}, "valid loss nan .* 3"),
        ({"max_updates": 4}, "no finite gradient in 3 .* 4"),
    ],
)
def test_divergence_is_seen_where_it_is(toy: Toy, values: dict[str, Value], found: str) -> None:
    for _ in range(2):  # it stays so when it is started again
        with pytest.raises(NMTError, match=f"diverged: {found}"):
            toy.train(learning_rate=1e30, **values)
    assert status(toy.folder / "run")["status"] == "failed"
    assert re.search(f"diverged: {found}", status(toy.folder / "run")["reason"])
    assert not list(toy.folder.rglob("*.safetensors"))


# --- results that are read an update later, as on a GPU


def read_late(toy: Toy) -> list[tuple[Any, ...]]:
    """Read results late from now on; return the calls that will launch updates."""
    toy.patch.setitem(trainer._UNREAD, "cpu", 1)
    return calls_of(toy.patch, TrainStep, "run")


def numbers(launched: list[tuple[Any, ...]]) -> list[int]:
    return [number for _, _, number in launched]


def test_a_stop_that_is_read_late_drops_the_updates_launched_since(toy: Toy) -> None:
    expected = toy.undisturbed(**FP32)
    launched = read_late(toy)
    run = toy.stopped_after(3, **FP32)
    assert numbers(launched) == [1, 2, 3, 4, 5]  # 4 was asked to stop, which was read after 5
    assert status(run)["update"] == 3
    toy.train(**FP32)
    assert_same_run(run, expected)


def test_a_lack_of_memory_that_is_read_late_drops_the_updates_launched_since(toy: Toy) -> None:
    expected = toy.undisturbed(**PLAIN)
    launched = read_late(toy)
    fail_at(toy.patch, MemoryError(), tokens=80)
    run = toy.train(micro_batch_tokens=200, **PLAIN)
    assert numbers(launched)[:4] == [1, 2, 1, 2]
    assert_close(run, expected)


# --- two processes, in one of which something goes wrong


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_both_ranks_halve_the_micro_batch_when_one_has_no_memory(toy: Toy, late: bool) -> None:
    happens = {"what": "no memory", "place": "in a forward pass", "update": 11, "after": True}
    words = toy.disturbed(happens | {"late": late, "rank": 1}, **PLAIN)
    done = run_command(python_command(*words, ranks=2))
    assert done.returncode == 0, done.stderr
    (event,) = metrics(toy.folder / "run", "event")
    assert event["micro_batch_tokens"] == 60
    assert_close(toy.folder / "run", toy.undisturbed(**PLAIN))


# --- training that diverges, with finite numbers


def test_a_run_that_ends_no_better_than_guessing_says_so(toy: Toy) -> None:
    values: dict[str, Value] = {"max_updates": 150, "validate_every": 50, "log_every": 50}
    for rate, is_bad in ((10.0, True), (3e-3, False)):
        run = toy.folder / f"run-{rate}"
        done = nmt(*toy.words(run, learning_rate=rate, **values))
        assert done.returncode == 0, done.stderr
        warned = [line for line in done.stderr.splitlines() if "guessing" in line]
        # Not at update 50, where a model may still be learning how frequent tokens are.
        assert {"update 50" in line for line in warned} == ({False} if is_bad else set())
        assert all("warning" in line and "learning_rate" in line for line in warned)
        assert ("guessing" in log_of(run)) is is_bad
        assert (status(run)["status"], status(run)["update"]) == ("finished", 150)
        assert ("guessing" in status(run)["reason"]) is is_bad


@pytest.mark.parametrize("values", [{"warmup_updates": 120}, {"max_updates": 100}])
def test_a_young_model_may_be_no_better_than_guessing(toy: Toy, values: dict[str, Value]) -> None:
    young: dict[str, Value] = {"max_updates": 120, "validate_every": 50, "learning_rate": 1e-6}
    run = toy.train(**young | values)
    assert metrics(run, "valid")[-1]["nll"] > 6
    assert "guessing" not in log_of(run)
    assert status(run)["reason"] == "max_updates"
