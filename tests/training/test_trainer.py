"""What a run promises: it learns, it is the same however it is split, and it leaves what it says.

That a run which was stopped goes on as if it had not been is in `test_resume.py`.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from mishaps import around_steps, stopped_after
from torch import Tensor
from toy_training import (
    ALONE,
    assert_same_run,
    content,
    environment,
    flat,
    metrics,
    newest_state,
    nmt,
    prepare_toy,
    recipe,
    settings_of,
    status,
    train,
    weights,
)

from nmt.cli.train import Shorthands
from nmt.cli.train import train as train_command
from nmt.config import resumable_keys
from nmt.data.batches import FixedShape
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Position, updates_from
from nmt.errors import Stopped, UsageError
from nmt.models.kernels import linear as linear_module
from nmt.models.kernels.linear import use_library
from nmt.models.model_file import ModelReader, load_model
from nmt.runs.averaging import select_checkpoints
from nmt.runs.report import ValidationResult
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training import launch as launch_module
from nmt.training.meter import device_name
from nmt.training.optimizer import Optimizer
from nmt.training.update import UpdateRunner
from nmt.training.validation import Validator
from nmt.values import Value

# Without dropout, and with an epsilon that keeps Adam from blowing up gradients that are nothing
# but rounding; it also lets a gradient of the wrong scale show.
COMPARABLE: dict[str, Value] = {
    "seed": 3,
    "dropout": 0.0,
    "adam_epsilon": 1e-4,
    "batch_tokens": 33,
    "max_updates": 12,
    "log_every": 1,
    "validate_every": 6,
}
LARGER = COMPARABLE | {"batch_tokens": 300, "micro_batch_tokens": 10_000}


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with all that a run leaves; nobody changes it."""
    return train(data, tmp_path_factory.mktemp("run") / "run", keep_last=2, keep_best=2)


@pytest.fixture(scope="module")
def one_process(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(data, tmp_path_factory.mktemp("one") / "run", **COMPARABLE)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def updates(paths: list[Path]) -> list[int]:
    return [ModelReader(path).card.update for path in paths]


def difference(run: Path, other: Path) -> float:
    """How far two runs' ends are apart, as a share of the way that the first has gone."""
    end, other_end = flat(run / "last.safetensors"), flat(other / "last.safetensors")
    torch.manual_seed(recipe().training.seed)
    start = dict(ModelReader(run / "last.safetensors").card.build().named_parameters())
    way = end - torch.cat([start[name].detach().flatten() for name in sorted(start)])
    return float((end - other_end).norm() / way.norm())


# --- it learns


def test_a_run_learns(learnt: Path) -> None:
    first, *_, last = metrics(learnt, "train")
    # It starts near log V = 5.84; at most eps of the loss cannot be learnt away.
    assert first["nll"] > 3
    assert last["nll"] < 1
    bleu = [record["bleu"] for record in metrics(learnt, "valid")]
    assert bleu[-1] > 40 > 10 > bleu[0]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_learns_nearly_the_same(
    data: Path, tmp_path: Path, run: Path, precision: str
) -> None:
    other = train(data, tmp_path / "run", precision=precision)
    first, last = (metrics(other, "valid")[i]["nll"] for i in (0, -1))
    assert first - last > 1
    assert last == pytest.approx(metrics(run, "valid")[-1]["nll"], rel=0.02)
    # What is written is the fp32 master, not the rounded copy.
    assert {weight.dtype for weight in weights(other / "last.safetensors").values()} == {
        torch.float32
    }
    assert difference(run, other) > 1e-4


# --- it is the same however it is split


def test_another_seed_is_another_run(data: Path, tmp_path: Path, run: Path) -> None:
    same = train(data, tmp_path / "same", keep_last=2, keep_best=2)
    other = train(data, tmp_path / "other", keep_last=2, keep_best=2, seed=2)
    assert difference(run, same) == 0
    assert difference(run, other) > 0.1


def test_dropout_differs_between_updates_and_micro_batches(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    train(data, tmp_path / "run", max_updates=10, micro_batch_tokens=60)
    assert len(seeds) > 20  # the weights' and one a micro-batch
    assert len(set(seeds)) == len(seeds)


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose updates are not split."""
    return train(data, tmp_path_factory.mktemp("whole") / "run", **LARGER)


@pytest.mark.parametrize(
    ("ranks", "micro_batch_tokens"), [(None, 32), (None, 60), (2, 80), (4, 10_000)]
)
def test_ranks_and_micro_batches_come_to_the_same_update(
    data: Path, tmp_path: Path, whole: Path, ranks: int | None, micro_batch_tokens: int
) -> None:
    settings = settings_of(**LARGER | {"micro_batch_tokens": micro_batch_tokens})
    done = nmt("train", data, "--out", tmp_path / "parts", *settings, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert 0 < difference(whole, tmp_path / "parts") < 1e-4
    compare_figures(whole, tmp_path / "parts")


def fix_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all micro-batches be of one shape, as on a GPU for a compiled model."""
    monkeypatch.setattr(UpdateRunner, "shape", lambda _, *bounds: FixedShape.for_up_to(*bounds))


def test_micro_batches_of_one_shape_come_to_the_same_update(
    data: Path, tmp_path: Path, one_process: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_shapes(monkeypatch)
    fixed = train(data, tmp_path / "fixed", **COMPARABLE)
    assert difference(one_process, fixed) < 1e-4
    compare_figures(one_process, fixed)
    assert all(record["padding"] == 0.0 for record in metrics(one_process, "train"))
    assert all(record["padding"] > 0.0 for record in metrics(fixed, "train"))


@pytest.mark.slow  # compiling takes a minute or two
@pytest.mark.parametrize("fixed", [False, True])
def test_a_compiled_model_learns_the_same(
    data: Path, tmp_path: Path, one_process: Path, monkeypatch: pytest.MonkeyPatch, fixed: bool
) -> None:
    if fixed:
        fix_shapes(monkeypatch)
    compiled = train(data, tmp_path / "compiled", **COMPARABLE, compile=True)
    assert difference(one_process, compiled) < 1e-4
    compare_figures(one_process, compiled)


def compare_figures(run: Path, other: Path) -> None:
    for kind, keys in (
        ("train", ("update", "epoch", "loss", "nll", "grad_norm", "learning_rate")),
        ("valid", ("update", "loss", "nll")),
    ):
        for record, again in zip(metrics(run, kind), metrics(other, kind), strict=True):
            for key in keys:
                assert again[key] == pytest.approx(record[key], rel=1e-4), (record["update"], key)


def test_two_processes_are_one(data: Path, tmp_path: Path, one_process: Path) -> None:
    folder, out = DataFolder.open(data), tmp_path / "run"
    stream = updates_from(
        Position(), folder.train, Cut(micro_batch_tokens=33), batch_tokens=33, seed=3
    )
    sizes = [len(update.pairs) for update in itertools.islice(stream, 12)]
    assert min(sizes) == 1 < max(sizes)  # an update of one pair leaves a process without work
    done = nmt("train", data, "--out", out, *settings_of(**COMPARABLE), ranks=2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished at update 12") == 1  # one rank speaks
    assert 0 < difference(one_process, out) < 1e-4
    compare_figures(one_process, out)
    assert "ranks = 2" in (out / "config.toml").read_text()


def test_a_run_of_one_process_goes_on_with_two_and_back(
    data: Path, tmp_path: Path, one_process: Path
) -> None:
    out = train(data, tmp_path / "run", **COMPARABLE | {"max_updates": 4})
    settings = settings_of(**COMPARABLE | {"max_updates": 8})
    done = nmt("train", data, "--out", out, *settings, ranks=2)
    assert done.returncode == 0, done.stderr
    train(data, out, **COMPARABLE)
    assert difference(one_process, out) < 1e-4


def test_a_run_goes_on_with_micro_batches_of_another_size(
    data: Path, tmp_path: Path, whole: Path
) -> None:
    out = train(data, tmp_path / "run", **LARGER | {"micro_batch_tokens": 120, "max_updates": 4})
    train(data, out, **LARGER | {"micro_batch_tokens": 35})
    assert [record["micro_batch_tokens"] for record in metrics(out, "start")] == [120, 35]
    assert 0 < difference(whole, out) < 1e-4


@pytest.mark.slow
def test_two_machines_meet_and_come_to_what_one_comes_to(
    data: Path, tmp_path: Path, one_process: Path
) -> None:
    with socket.create_server(("localhost", 0)) as free:
        meeting = f"localhost:{free.getsockname()[1]}"
    torchrun = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    arguments = ["-m", "nmt", "train", str(data), "--out", str(tmp_path / "run")]
    command = [sys.executable, "-m", "torch.distributed.run", *torchrun, "--rdzv-endpoint", meeting]
    machines = [
        subprocess.Popen(
            [*command, *arguments, *settings_of(**COMPARABLE)],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for _ in range(2)
    ]
    said = [machine.communicate(timeout=120)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert difference(one_process, tmp_path / "run") < 1e-4


# --- what it leaves


def test_metrics_are_whole_and_in_order(run: Path) -> None:
    records = metrics(run, "train") + metrics(run, "valid")
    expected = [("train", u) for u in range(5, 31, 5)] + [("valid", u) for u in range(7, 31, 7)]
    found = [(record["kind"], record["update"]) for record in records]
    assert sorted(found) == sorted(expected)
    updates_in_file = [record["update"] for record in metrics(run)]
    assert updates_in_file == sorted(updates_in_file)
    for record in metrics(run, "valid"):
        assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
    for record in metrics(run, "train"):
        assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
        assert record["epoch"] == pytest.approx(record["update"] / 7)  # of seven updates each
        assert 0 <= record["padding"] < 1
        assert record["tokens_per_second"] > 0
        assert record["mfu"] > 0
        assert 0 <= record["data_wait"] < 1
    rates = [record["learning_rate"] for record in metrics(run, "train")]
    # Up to 3e-3 in ten updates, then with the inverse square root.
    expected_rates = [1.5e-3, 3e-3, *(3e-3 * math.sqrt(10 / u) for u in (15, 20, 25, 30))]
    assert rates == pytest.approx(expected_rates)


def test_the_record_of_a_start_says_on_what_machine(run: Path) -> None:
    (record,) = metrics(run, "start")
    assert metrics(run)[0] == record
    assert record.pop("matrix_product_flops_per_second") > 0
    assert record == {
        "kind": "start",
        "update": 0,
        "device": device_name(torch.device("cpu")),
        "matmul": "torch",
        "micro_batch_tokens": 120,
        "ranks": 1,
        "threads": 1,
        "torch": torch.__version__,
    }


needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is without oneDNN"
)


@needs_onednn
def test_the_library_of_matrix_products_stays_that_of_the_start(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"forward": (2.0, 1.0), "input": (1.0, 2.0), "weight": (1.0, 2.0)}
    monkeypatch.setattr(linear_module, "_seconds_a_row", lambda *_: times)
    whole = train(data, tmp_path / "whole", matmul="auto", max_updates=4)
    out = stopped_after(monkeypatch, 2, data, tmp_path / "run", matmul="auto", max_updates=4)
    for kind, (by_torch, by_onednn) in times.items():
        times[kind] = by_onednn, by_torch
    train(data, out, matmul="auto", max_updates=4)
    libraries = [record["matmul"] for record in metrics(out, "start")]
    assert libraries == ["onednn:forward", "onednn:forward"]
    assert_same_run(out, whole)
    use_library("torch")


def test_the_shapes_that_are_timed_are_those_of_the_model(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[tuple[dict[tuple[int, int], int], int]] = []

    def fastest(weights: Mapping[tuple[int, int], int], rows: int) -> str:
        timed.append((dict(weights), rows))
        return "torch"

    monkeypatch.setattr(launch_module, "fastest_library", fastest)
    train(data, tmp_path / "run", matmul="auto", max_updates=1)
    # Queries, keys and values; the feed-forward's two; what attention ends with, and the queries of
    # attention to the memory; its keys and values, which are as many; the tied embedding.
    weights = {(96, 32): 2, (64, 32): 3, (32, 64): 2, (32, 32): 4, (345, 32): 1}
    assert timed == [(weights, 120)]
    # Learned positions are looked up, not multiplied by.
    train(data, tmp_path / "learned", matmul="auto", max_updates=1, positions="learned")
    assert timed.pop() == (weights, 120)
    train(data, tmp_path / "bf16", matmul="auto", max_updates=1, precision="bf16")
    assert len(timed) == 1  # where only products of fp32 have a choice


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


def test_checkpoints_are_the_newest_and_the_best(run: Path) -> None:
    valid = sorted((record["loss"], record["update"]) for record in metrics(run, "valid"))
    best = sorted(update for _, update in valid[:2])
    assert names(run) == sorted(
        [f"best-{update:08d}.safetensors" for update in best]
        + [f"update-{update:08d}.safetensors" for update in (16, 24)]
        + [f"update-{update:08d}.state" for update in (24, 30)]
    )
    assert ModelReader(run / "best.safetensors").card.update == valid[0][1]
    assert ModelReader(run / "last.safetensors").card.update == 30


def test_a_checkpoint_carries_its_own_figures(run: Path) -> None:
    for record in metrics(run, "valid")[-2:]:
        card = ModelReader(run / f"checkpoints/best-{record['update']:08d}.safetensors").card
        assert card.valid == {key: record[key] for key in ("loss", "nll", "perplexity")}
    # No metrics stand beside weights that they were not measured on.
    assert ModelReader(run / "last.safetensors").card.valid == {}


def test_a_run_leaves_curves_a_log_and_nothing_half_written(run: Path) -> None:
    assert ElementTree.parse(run / "curves.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    log = (run / "train.log").read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S", line) for line in log)
    assert "starting: transformer_tiny" in log[0]
    assert "finished at update 30 (max_updates)" in log[-1]
    assert status(run) == {"status": "finished", "update": 30, "reason": "max_updates"}
    names_of_files = "config.toml curves.svg last.safetensors lock metrics.jsonl status.json"
    assert sorted(path.name for path in run.iterdir()) == [
        *("best.safetensors", "checkpoints", *names_of_files.split(), "train.log")
    ]


def test_the_written_configuration_alone_repeats_the_run(
    data: Path, tmp_path: Path, run: Path
) -> None:
    train_command(data, tmp_path / "again", config=run / "config.toml", shorthands=Shorthands())
    assert torch.equal(flat(tmp_path / "again/last.safetensors"), flat(run / "last.safetensors"))


def test_the_moving_average_is_what_is_validated_and_written(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters: list[Tensor] = []

    def note(optimizer: Optimizer, _: int) -> None:
        masters.append(optimizer.weights.master.clone())

    around_steps(
        monkeypatch,
        before=lambda *step: note(*step) if not masters else None,
        after=note,
    )
    out = train(data, tmp_path / "run", ema_decay=0.8, max_updates=21)
    average = masters[0].double()
    for update, master in enumerate(masters[1:], start=1):
        decay = min(0.8, update / (update + 10))
        average = decay * average + (1 - decay) * master.double()
    written = weights(out / "last.safetensors")
    _, vectors = newest_state(out)
    torch.testing.assert_close(vectors["ema"], average.float())
    torch.testing.assert_close(vectors["weights"], masters[-1])
    total = sum(float(weight.double().sum()) for weight in written.values())
    assert total == pytest.approx(float(vectors["ema"].double().sum()))
    # The metrics logged are those of the weights written.
    model, card = load_model(out / "checkpoints/best-00000021.safetensors")
    validator = Validator(DataFolder.open(data), ALONE, torch.device("cpu"), recipe().training)
    result = validator.measure(model, lambda: False)
    assert result is not None
    assert card.update == 21
    assert result.loss == pytest.approx(metrics(out, "valid")[-1]["loss"], rel=1e-6)


def test_patience_ends_a_run_that_gets_no_better(data: Path, tmp_path: Path) -> None:
    # So small a rate changes no weight: only the first validation is better than what was before.
    still: dict[str, Value] = {"learning_rate": 1e-30, "validate_every": 3}
    out = train(data, tmp_path / "run", **still, patience=2)
    assert [record["update"] for record in metrics(out, "valid")] == [3, 6, 9]
    assert status(out)["reason"] == "no better result in 2 validations"
    assert status(out)["update"] == 9
    assert ModelReader(out / "best.safetensors").card.update == 3
    train(data, out, **still, patience=4)  # more of it goes on
    assert status(out)["update"] == 15


def test_patience_and_best_go_by_the_metric_that_is_asked_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loss gets better, BLEU does not after the second.
    results = iter([(4.0, 9.5), (3.0, 10.0), (2.0, 9.0), (1.0, 8.0)])

    def measured(*_: object) -> ValidationResult:
        loss, bleu = next(results)
        return ValidationResult(loss, loss, bleu, "signature")

    monkeypatch.setattr(Validator, "measure", measured)
    values: dict[str, Value] = {"validate_bleu": True, "best_metric": "bleu", "patience": 2}
    out = train(data, tmp_path / "run", **values, validate_every=3)
    assert (status(out)["update"], status(out)["status"]) == (12, "finished")
    assert ModelReader(out / "best.safetensors").card.update == 6


# --- what it refuses


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 16}, "d_model was 32 and is now 16"),
        ({"seed": 2}, "seed was 1 and is now 2"),
        ({"batch_tokens": 100}, "batch_tokens was 200 and is now 100"),
        ({"precision": "bf16"}, "precision was 'fp32' and is now 'bf16'"),
        ({"freeze": "encoder.*"}, "freeze was '' and is now 'encoder.*'"),
        ({"learning_rate": 1e-3, "dropout": 0.2}, "dropout was 0.1 and is now 0.2; learning_rate"),
    ],
)
def test_a_folder_with_another_run_is_refused(
    data: Path, run: Path, values: dict[str, Value], message: str
) -> None:
    before = content(run)
    with pytest.raises(UsageError, match=re.escape(message)):
        train(data, run, **{"keep_last": 2, "keep_best": 2, **values})
    assert content(run) == before
    assert UsageError.exit_status == 2


def test_a_run_on_other_data_is_refused(run: Path, tmp_path: Path) -> None:
    before = content(run)
    with pytest.raises(UsageError, match=r"data was '\w+' and is now '\w+'"):
        train(prepare_toy(tmp_path, count=250), run, keep_last=2, keep_best=2)
    assert content(run) == before


def test_what_may_change_may_change(data: Path, run: Path, tmp_path: Path) -> None:
    other: dict[str, Value] = {
        "micro_batch_tokens": 300,
        "max_updates": 20,
        "patience": 9,
        "threads": 2,
        "device": "auto" if not torch.cuda.is_available() else "cpu",
        "log_every": 3,
        "validate_every": 11,
        "save_every": 13,
        "save_minutes": 1.0,
        "keep_last": 7,
        "keep_best": 7,
        "sample_translations": 1,
        "tensorboard": find_spec("tensorboard") is not None,
    }
    assert other.keys() == resumable_keys()
    again = shutil.copytree(run, tmp_path / "run")
    train(data, again, **other)  # done already: nothing is lost
    assert status(again)["status"] == "finished"
    assert metrics(again) == metrics(run)
    assert "keep_best = 7" in (again / "config.toml").read_text()


def test_a_folder_with_other_things_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="has other files and no run"):
        train(data, tmp_path / "run")
    with pytest.raises(UsageError, match="exists and is not a folder"):
        train(data, tmp_path / "run/thesis.txt")
    assert content(tmp_path) == {"run/thesis.txt": b"mine"}


def test_a_recipe_that_does_not_fit_can_be_put_right_in_the_same_folder(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="batch_tokens is 20, but the longest sentence has 31"):
        train(data, tmp_path / "run", batch_tokens=20)
    train(data, tmp_path / "run", max_updates=2)
    assert status(tmp_path / "run")["status"] == "finished"


def test_a_folder_in_use_is_left_alone(data: Path, run: Path) -> None:
    holder = RunFolder(run)
    holder.lock()
    before = content(run)
    try:
        with pytest.raises(Stopped, match="another process is training here"):
            train(data, run, keep_last=2, keep_best=2)
    finally:
        holder.unlock()
    assert content(run) == before
    assert Stopped.exit_status == 75


def test_separate_vocabularies_cannot_share_one_embedding(tmp_path: Path) -> None:
    separate = prepare_toy(tmp_path, separate_vocab=True)
    with pytest.raises(UsageError, match="add --set tie_embeddings=decoder"):
        train(separate, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for tie in ("decoder", "none"):
        out = train(separate, tmp_path / tie, tie_embeddings=tie, max_updates=8)
        card = ModelReader(out / "last.safetensors").card
        assert len(card.src_vocabulary) == len(card.tgt_vocabulary) == 310
        assert card.src_vocabulary.model != card.tgt_vocabulary.model


# --- when it saves


def test_a_save_by_the_clock_is_no_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every look at the clock is a minute later, so that a safety save is due all the time.
    clock = iter(range(0, 10**9, 60))
    monkeypatch.setattr("nmt.training.saving.time.monotonic", lambda: float(next(clock)))
    out = train(data, tmp_path / "run", save_minutes=0.1, max_updates=11)
    assert names(out) == [
        "best-00000007.safetensors",
        "update-00000008.safetensors",
        "update-00000010.state",
        "update-00000011.state",
    ]
    # What it says is last is last, also where the clock was quicker.
    assert ModelReader(out / "last.safetensors").card.update == 11


def test_a_missing_last_model_is_written_again(data: Path, tmp_path: Path) -> None:
    out = train(data, tmp_path / "run", max_updates=10)
    before = weights(out / "last.safetensors")
    for damage in (Path.unlink, lambda path: path.write_bytes(b"damaged")):
        damage(out / "last.safetensors")
        train(data, out, max_updates=10)
        after = weights(out / "last.safetensors")
        assert all(torch.equal(after[name], before[name]) for name in before)


def test_averaging_beside_a_running_training_touches_nothing(run: Path, tmp_path: Path) -> None:
    running = shutil.copytree(run, tmp_path / "run")
    half_written = running / "checkpoints/update-00000032.safetensors.77.partial"
    half_written.write_bytes(b"of a process that is still at it")
    before = content(running)
    assert updates(select_checkpoints(running, 2, best=False)) == [16, 24]
    assert content(running) == before
