"""What a recipe leaves open is chosen by trying it, written down, and kept on resuming."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from toy_training import Toy, assert_same_run, metrics, recipe

from nmt.data.folder import DataFolder
from nmt.models.device import default_precision
from nmt.models.kernels import linear as linear_module
from nmt.models.kernels.linear import use_library
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training import loss
from nmt.training import settle as settle_module
from nmt.training.memory import even_batch


def config_of(run: Path) -> dict[str, object]:
    """Return the [training] values of a run folder."""
    found: dict[str, object] = tomllib.loads((run / "config.toml").read_text())["training"]
    return found


def let_bf16_be(toy: Toy, *, products: float, updates: float) -> None:
    """Pretend that bf16 is so many times as fast as fp32 here, in plain products and in updates."""
    rates = {torch.float32: 1e9, torch.bfloat16: products * 1e9}
    toy.patch.setattr(settle_module, "matrix_product_rate", lambda _, dtype: rates[dtype])
    seconds = {"fp32": updates, "bf16": 1.0}
    toy.patch.setattr(settle_module, "_seconds", lambda *_: seconds)


@pytest.mark.parametrize(
    ("products", "updates", "precision"), [(2.0, 1.31, "bf16"), (2.0, 1.29, "fp32")]
)
def test_a_cpu_trains_in_bf16_if_a_trial_is_1_3_times_as_fast(
    toy: Toy, products: float, updates: float, precision: str
) -> None:
    let_bf16_be(toy, products=products, updates=updates)
    assert config_of(toy.train(precision="auto", max_updates=1))["precision"] == precision


def test_without_fast_products_nothing_is_tried(toy: Toy) -> None:
    let_bf16_be(toy, products=0.1, updates=math.nan)
    toy.patch.setattr(settle_module, "_seconds", lambda *_: pytest.fail("it may take minutes"))
    assert config_of(toy.train(precision="auto", max_updates=1))["precision"] == "fp32"


def test_no_trial_without_the_memory_for_it(toy: Toy) -> None:
    let_bf16_be(toy, products=2.0, updates=2.0)
    toy.patch.setattr(settle_module, "available_bytes", lambda: 100_000)
    assert config_of(toy.train(precision="auto", max_updates=1))["precision"] == "fp32"


def test_a_resumed_run_keeps_its_precision(toy: Toy) -> None:
    let_bf16_be(toy, products=2.0, updates=2.0)
    whole = toy.train("whole", precision="auto", max_updates=4)
    run = toy.stopped_after(2, precision="auto", max_updates=4)
    let_bf16_be(toy, products=1.0, updates=1.0)
    assert config_of(toy.train(precision="auto", max_updates=4))["precision"] == "bf16"
    assert_same_run(run, whole)


def test_the_trial_runs_the_model_in_both_precisions(toy: Toy) -> None:
    data, random = DataFolder.open(toy.data), torch.get_rng_state()
    types = min(len(data.src_vocabulary), len(data.tgt_vocabulary))
    seconds = settle_module._seconds(recipe(), data, even_batch(100, 10, types))
    assert set(seconds) == {"fp32", "bf16"}
    assert all(0 < taken < 60 for taken in seconds.values())
    assert torch.equal(torch.get_rng_state(), random)  # the run's own numbers do not change


@pytest.mark.parametrize(
    ("device", "capability", "precision"),
    [("cuda", (8, 0), "bf16"), ("cuda", (7, 5), "fp32"), ("cpu", (8, 0), "fp32")],
)
def test_precision_on_devices(
    monkeypatch: pytest.MonkeyPatch, device: str, capability: tuple[int, int], precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert default_precision(torch.device(device)) == precision


@pytest.mark.parametrize(
    ("device", "precision", "works", "pays"),
    [
        ("cuda", "bf16", True, True),
        ("cuda", "fp32", True, False),
        ("cpu", "bf16", True, False),
        ("cuda", "bf16", False, False),  # without a compiler
    ],
)
def test_compiling_pays_on_gpus_in_bf16_where_it_works(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    device: str,
    precision: str,
    works: bool,
    pays: bool,
) -> None:
    def compile_it(_: object) -> object:
        if not works:
            raise RuntimeError("no C compiler\nhere")
        return lambda _: None

    monkeypatch.setattr(torch, "compile", compile_it)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: None)
    assert settle_module._pays_to_compile(torch.device(device), precision) is pays
    said = capsys.readouterr().err
    assert ("no C compiler" in said) is (not works)
    assert "here" not in said.replace("work here", "")


def test_compiling_is_settled_and_toml_has_true_and_false(toy: Toy) -> None:
    assert config_of(toy.train(max_updates=1))["compile"] == "false"
    assert recipe(compile=True).training.compiles
    assert not recipe(compile=False).training.compiles


@pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is without oneDNN"
)
def test_the_library_of_matrix_products_stays_that_of_the_start(toy: Toy) -> None:
    times = {"forward": (2.0, 1.0), "input": (1.0, 2.0), "weight": (1.0, 2.0)}
    toy.patch.setattr(linear_module, "_seconds_a_row", lambda *_: times)
    whole = toy.train("whole", matmul="auto", max_updates=4)
    run = toy.stopped_after(2, matmul="auto", max_updates=4)
    for kind, (by_torch, by_onednn) in times.items():
        times[kind] = by_onednn, by_torch
    toy.train(matmul="auto", max_updates=4)
    libraries = [record["matmul"] for record in metrics(run, "start")]
    assert libraries == ["onednn:forward", "onednn:forward"]
    assert_same_run(run, whole)
    use_library("torch")


def test_the_shapes_that_are_timed_are_those_of_the_model(toy: Toy) -> None:
    timed: list[tuple[dict[tuple[int, int], int], int]] = []

    def fastest(weights: Mapping[tuple[int, int], int], rows: int) -> str:
        timed.append((dict(weights), rows))
        return "torch"

    toy.patch.setattr(settle_module, "fastest_library", fastest)
    toy.train(matmul="auto", max_updates=1)
    # Queries, keys and values; the feed-forward's two; what attention ends with, and the queries of
    # attention to the memory; its keys and values, which are as many; the tied embedding.
    weights = {(96, 32): 2, (64, 32): 3, (32, 64): 2, (32, 32): 4, (345, 32): 1}
    assert timed == [(weights, 120)]
    # Learned positions are looked up, not multiplied by.
    toy.train("learned", matmul="auto", max_updates=1, positions="learned")
    assert timed.pop() == (weights, 120)
    toy.train("bf16", matmul="auto", max_updates=1, precision="bf16")
    assert len(timed) == 1  # where only products of fp32 have a choice
    toy.patch.setattr(torch.nn.Module, "compile", lambda *_, **__: None)
    toy.patch.setattr(loss, "_compiled", lambda: loss._of_chunk)
    toy.train("compiled", matmul="auto", max_updates=1, compile="true")
    assert len(timed) == 1  # the compiler has no product by oneDNN


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
    run = RunFolder(tmp_path)
    run.write_config(recipe(threads=3), "data", InitialModel(), ranks=2)
    settled = run.settled(recipe(threads=asked).training, ranks, cores)
    assert (settled.threads or cores) == threads
    run.refuse_changes(recipe(threads=threads), "data", InitialModel())  # does not raise
