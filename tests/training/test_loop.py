"""What a run promises: it learns, it is the same however it is split, and it leaves what it says.

That a run which was stopped goes on as if it had not been is in `test_stop_request.py`.
"""

import itertools
import math
import re
import shutil
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from command_line import Nmt
from mishaps import at_updates, pretend_to_compile
from processes import LONG
from torch import nn
from torch._dynamo.utils import counters
from toy_training import (
    ALONE,
    Toy,
    assert_same_run,
    content,
    environment,
    flat,
    metrics,
    newest_state,
    prepare_toy,
    recipe,
    status,
    train,
    weights,
)

from nmt.config.fields import Value
from nmt.config.recipes import resumable_keys
from nmt.data import batches
from nmt.data.batches import FixedShape, Packed, SplitBounds
from nmt.data.epochs import EncodedPairs
from nmt.data.folder import DataFolder
from nmt.data.updates import BatchPartition, Position, fixed_shape, updates_from
from nmt.errors import Stopped, UsageError
from nmt.models.kernels.packed_attention import Sentences
from nmt.models.model_file import ModelReader, load_model, write_model
from nmt.models.transformer import Transformer
from nmt.runs.averaging import select_checkpoints
from nmt.runs.report import TextResult, ValidationResult
from nmt.runs.run_folder import RunFolder
from nmt.scoring.metrics import Score
from nmt.training import autotune, saving
from nmt.training.run_metrics import device_name
from nmt.training.update import TrainStep
from nmt.training.validation import Validator

# Without dropout, and with an epsilon that keeps Adam from blowing up gradients that are nothing
# but rounding; it also lets a gradient of the wrong scale show.
COMPARABLE: dict[str, Value] = {
    "seed": 5,
    "dropout": 0.0,
    "adam_epsilon": 1e-4,
    "batch_tokens": 33,
    "max_updates": 12,
    "log_every": 1,
    "validate_every": 6,
}
LARGER = COMPARABLE | {"batch_tokens": 300, "micro_batch_tokens": 10_000}
KEPT: dict[str, Value] = {"keep_last": 2, "keep_best": 2}


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with all that a run leaves; nobody changes it."""
    return train(data, tmp_path_factory.mktemp("run") / "run", **KEPT)


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
def test_low_precision_learns_nearly_the_same(toy: Toy, run: Path, precision: str) -> None:
    other = toy.train(precision=precision)
    first, last = (metrics(other, "valid")[i]["nll"] for i in (0, -1))
    assert first - last > 1
    assert last == pytest.approx(metrics(run, "valid")[-1]["nll"], rel=0.02)
    # What is written is the fp32 master, not the rounded copy.
    assert {one.dtype for one in weights(other / "last.safetensors").values()} == {torch.float32}
    assert difference(run, other) > 1e-4


# --- it is the same however it is split


def test_a_run_is_repeated_by_its_configuration_and_its_seed(nmt: Nmt, toy: Toy, run: Path) -> None:
    again, config = toy.folder / "again", run / "config.toml"
    assert nmt("train", toy.data, "--out", again, "--config", config).status == 0
    assert difference(run, again) == 0
    assert difference(run, toy.train("other", **KEPT, seed=2)) > 0.1


def test_dropout_differs_between_updates_and_micro_batches(toy: Toy) -> None:
    seeds: list[int] = []
    toy.patch.setattr(torch, "manual_seed", seeds.append)
    toy.train(max_updates=10, micro_batch_tokens=60)
    assert len(seeds) > 20  # the weights' and one a micro-batch
    assert len(set(seeds)) == len(seeds)


def assert_equal_to_rounding(run: Path, other: Path) -> None:
    assert 0 < difference(run, other) < 1e-4
    for kind, keys in (
        ("train", ("update", "epoch", "loss", "nll", "grad_norm", "learning_rate")),
        ("valid", ("update", "loss", "nll")),
    ):
        # A run that ended before and went on has validated that update, too.
        found = {record["update"]: record for record in metrics(other, kind)}
        for record in metrics(run, kind):
            again = found[record["update"]]
            for key in keys:
                assert again[key] == pytest.approx(record[key], rel=1e-4), (record["update"], key)


def test_micro_batches_come_to_the_same_update(toy: Toy) -> None:
    parts = toy.train(**LARGER | {"micro_batch_tokens": 32})
    assert_equal_to_rounding(toy.undisturbed(**LARGER), parts)


@pytest.mark.parametrize(
    ("products", "padded"),
    [({"matmul": "torch"}, False), ({"matmul": "onednn"}, True), ({"precision": "bf16"}, True)],
)
def test_batches_are_padded_for_onednn_only(
    toy: Toy, products: dict[str, Value], padded: bool
) -> None:
    run = toy.train(**products, **LARGER | {"max_updates": 2})
    assert [record["padding"] > 0 for record in metrics(run, "train")] == [padded] * 2


def test_several_processes_some_without_work_come_to_the_same_update(toy: Toy) -> None:
    partition, train_split = BatchPartition(micro_batch_tokens=33), DataFolder.open(toy.data).train
    stream = updates_from(Position(), train_split, partition, batch_tokens=33, seed=5)
    sizes = [len(update.pairs) for update in itertools.islice(stream, 12)]
    assert min(sizes) == 1 < 3 < max(sizes)  # an update of one pair leaves two without work
    assert toy.train_with(3, "run", **COMPARABLE).count("at update 12") == 1  # one rank speaks
    assert "ranks = 3" in (toy.folder / "run/config.toml").read_text()
    assert_equal_to_rounding(toy.undisturbed(**COMPARABLE), toy.folder / "run")


def test_a_run_goes_on_with_other_processes_and_micro_batches(toy: Toy) -> None:
    values = LARGER | {"ema_decay": 0.9, "clip_norm": 1.0}
    run = toy.train(**values | {"micro_batch_tokens": 120, "max_updates": 4})
    toy.train_with(2, run, **values | {"micro_batch_tokens": 80, "max_updates": 8})
    toy.train(run, **values | {"micro_batch_tokens": 35})
    starts = [(record["ranks"], record["micro_batch_tokens"]) for record in metrics(run, "start")]
    assert starts == [(1, 120), (2, 80), (1, 35)]
    assert_equal_to_rounding(toy.undisturbed(**values), run)


def fix_shapes(patch: pytest.MonkeyPatch) -> None:
    """Let all micro-batches be of one shape, as on a GPU for a compiled model."""

    def shape(step: TrainStep, pairs: EncodedPairs, bounds: SplitBounds) -> FixedShape:
        config = step.config
        return fixed_shape(pairs, bounds, batch_tokens=config.batch_tokens, seed=config.seed)

    patch.setattr(TrainStep, "shape", shape)


def test_micro_batches_of_one_shape_come_to_the_same_update(toy: Toy) -> None:
    whole = toy.undisturbed(**COMPARABLE)
    fix_shapes(toy.patch)
    fixed = toy.train(**COMPARABLE)
    assert_equal_to_rounding(whole, fixed)
    assert all(record["padding"] == 0.0 for record in metrics(whole, "train"))
    assert all(record["padding"] > 0.0 for record in metrics(fixed, "train"))


@pytest.mark.slow  # compiling takes a minute or two
@pytest.mark.parametrize("fixed", [False, True])
def test_a_compiled_model_learns_the_same(toy: Toy, fixed: bool) -> None:
    whole = toy.undisturbed(**COMPARABLE)
    if fixed:
        fix_shapes(toy.patch)
    assert_equal_to_rounding(whole, toy.train(**COMPARABLE, compile=True))


@pytest.mark.slow  # tracing takes some seconds
def test_layers_of_a_fixed_shape_are_compiled_once_for_each_bound_on_lengths(toy: Toy) -> None:
    # The run believes that attention takes packed sentences, but pads them.
    compile_block, lay_out = nn.Module.compile, Sentences.of
    bounds: set[int] = set()

    def padded(packed: Packed, num_heads: int, *, as_packed: bool, **options: Any) -> Sentences:
        assert as_packed
        if torch.is_grad_enabled():  # else it validates, uncompiled
            bounds.add(packed.longest)
        return lay_out(packed, num_heads, as_packed=False, **options)

    def by_tracing(block: nn.Module, **options: Any) -> None:
        compile_block(block, backend="eager", **options)

    toy.patch.setattr(Transformer, "is_padding_free", True)
    toy.patch.setattr(Sentences, "of", padded)
    pretend_to_compile(toy.patch)
    toy.patch.setattr(nn.Module, "compile", by_tracing)
    toy.patch.setattr(batches, "_SHORT", 4)
    torch.compiler.reset()
    counters.clear()
    toy.train(**COMPARABLE | {"max_updates": 3}, compile=True)
    assert len(bounds) > 1
    assert counters["stats"]["unique_graphs"] == 2 * len(bounds)  # encoder layers and decoder's


@pytest.mark.slow
def test_two_machines_meet_and_come_to_what_one_comes_to(toy: Toy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = f"127.0.0.1:{free.getsockname()[1]}"
    torchrun = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    torchrun += ["--local-addr", "127.0.0.1"]  # this machine's name need not resolve
    command = [sys.executable, "-m", "torch.distributed.run", *torchrun]
    command += ["--rdzv-endpoint", meeting, "-m", "nmt", *toy.words("run", **COMPARABLE)]
    machines = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
        for _ in range(2)
    ]
    said = [machine.communicate(timeout=LONG)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert difference(toy.undisturbed(**COMPARABLE), toy.folder / "run") < 1e-4


# --- what it leaves


def test_metrics_are_whole_and_in_order(run: Path) -> None:
    records = metrics(run, "train") + metrics(run, "valid")
    expected = [("train", u) for u in range(5, 31, 5)]
    expected += [("valid", u) for u in (7, 14, 21, 28, 30)]  # and the last update
    assert sorted((record["kind"], record["update"]) for record in records) == sorted(expected)
    updates_in_file = [record["update"] for record in metrics(run)]
    assert updates_in_file == sorted(updates_in_file)
    for record in records:
        assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
    for record in metrics(run, "train"):
        assert record["epoch"] == pytest.approx(record["update"] / 7.5, rel=0.1)  # of 7 or 8
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
        "compile": "false",
        "device": device_name(torch.device("cpu")),
        "matmul": "torch",
        "micro_batch_tokens": 120,
        "ranks": 1,
        "threads": 1,
        "torch": torch.__version__,
    }


def test_checkpoints_are_the_newest_and_the_best_with_their_figures(run: Path) -> None:
    valid = sorted(metrics(run, "valid"), key=lambda record: float(record["loss"]))
    best = sorted(record["update"] for record in valid[:2])
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == sorted(
        [f"best-{update:08d}.safetensors" for update in best]
        + [f"update-{update:08d}.safetensors" for update in (16, 24)]
        + [f"update-{update:08d}.state" for update in (0, 30)]  # `save_minutes` were not over
    )
    for record in valid[:2]:
        card = ModelReader(run / f"checkpoints/best-{record['update']:08d}.safetensors").card
        assert card.valid == {key: record[key] for key in ("loss", "nll", "perplexity")}
    assert ModelReader(run / "best.safetensors").card.update == valid[0]["update"]
    last = ModelReader(run / "last.safetensors").card
    assert (last.update, last.valid["nll"]) == (30, metrics(run, "valid")[-1]["nll"])


def test_a_run_leaves_curves_a_log_and_nothing_half_written(run: Path) -> None:
    assert ElementTree.parse(run / "curves.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    log = (run / "train.log").read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"\d\d-\d\d \d\d:\d\d:\d\d .*\S", line) for line in log)
    assert "starting: transformer_tiny" in log[0]
    for choice in ("fp32 on cpu", "1 x 1 thread,", "micro-batches of ", "products by torch"):
        assert choice in "".join(line[15:] for line in log[:3])
    assert any("update 30 (max_updates)" in line for line in log[-3:])
    assert status(run) == {"status": "finished", "update": 30, "reason": "max_updates"}
    names = "best.safetensors checkpoints config.toml curves.svg last.safetensors lock "
    names += "metrics.jsonl status.json train.log"
    assert sorted(path.name for path in run.iterdir()) == names.split()


def test_the_moving_average_is_what_is_validated_and_written(toy: Toy) -> None:
    run = toy.train(ema_decay=0.8, max_updates=21)
    model, card = load_model(run / "checkpoints/best-00000021.safetensors")
    _, vectors = newest_state(run)
    written = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert torch.equal(written.sort().values, vectors["ema"].sort().values)
    assert not torch.equal(vectors["ema"], vectors["weights"])
    validator = Validator(DataFolder.open(toy.data), ALONE, torch.device("cpu"), recipe().training)
    result = validator.measure(model, lambda: False)
    assert result is not None
    assert result.loss == pytest.approx(card.valid["loss"], rel=1e-6)


def test_patience_and_best_go_by_the_metric_that_is_asked_for(toy: Toy) -> None:
    # Loss and BLEU get better, chrF does not after the second.
    results = iter([(4.0, 9.5), (3.0, 10.0), (2.0, 9.0), (1.0, 8.0)])

    def measured(*_: object) -> ValidationResult:
        loss, chrf = next(results)
        scores = {
            name: Score(name, score, "signature")
            for name, score in (("bleu", 50 - 10 * loss), ("chrf", chrf))
        }
        return ValidationResult(loss, loss, (TextResult(("en", "de"), loss, scores),))

    toy.patch.setattr(Validator, "measure", measured)
    both: dict[str, Value] = {"validate_metric": "bleu,chrf"}
    run = toy.train(**both, best_metric="chrf", patience=2, validate_every=3, keep_best=2)
    assert (status(run)["update"], status(run)["status"]) == (12, "finished")
    best = select_checkpoints(run, 2, best=True)
    assert [ModelReader(path).card.update for path in best] == [6, 3]
    assert ModelReader(run / "best.safetensors").card.update == 6


# --- what it refuses, which `test_dry_run.py` has more of


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 16}, "d_model was 32"),
        ({"precision": "bf16"}, "precision was 'fp32'"),
        ({"freeze": "encoder.*"}, "freeze was ''"),
        ({"learning_rate": 1e-3, "dropout": 0.2}, "0.2; learning_rate"),
        ({}, "DATA was "),
    ],
)
def test_other_runs_fail(toy: Toy, run: Path, values: dict[str, Value], message: str) -> None:
    before = content(run)
    data = toy.data if values else prepare_toy(toy.folder, count=250)
    with pytest.raises(UsageError, match=re.escape(message)):
        train(data, run, **KEPT, **values)
    assert content(run) == before
    assert UsageError.exit_status == 2


def test_what_may_change_may_change(toy: Toy, run: Path) -> None:
    other: dict[str, Value] = {
        "micro_batch_tokens": 300,
        "max_updates": 20,
        "patience": 9,
        "compile": "loss",  # which rounds, as the device does
        "threads": 2,  # which go with the number of processes
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
    toy.patch.setattr(autotune, "problem_of_compiling", lambda _: "")
    again = shutil.copytree(run, toy.folder / "run")
    toy.train(**other)  # done already: nothing is lost
    assert status(again)["status"] == "finished"
    assert metrics(again) == metrics(run)
    assert "keep_best = 7" in (again / "config.toml").read_text()


def test_a_folder_in_use_is_left_alone(toy: Toy, run: Path) -> None:
    holder = RunFolder(run)
    holder.lock()
    before = content(run)
    try:
        with pytest.raises(Stopped, match=str(run)):
            toy.train(run, **KEPT)
    finally:
        holder.unlock()
    assert content(run) == before
    assert Stopped.exit_status == 75


# --- when it saves


def test_a_save_by_the_clock_is_no_checkpoint(toy: Toy) -> None:
    # Every look at the clock is a minute later, so that a safety save is due all the time.
    clock = iter(range(0, 10**9, 60))
    toy.patch.setattr("nmt.training.saving.time.monotonic", lambda: float(next(clock)))
    run = toy.train(save_minutes=0.1, max_updates=11)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "best-00000011.safetensors",
        "update-00000008.safetensors",
        "update-00000010.state",
        "update-00000011.state",
    ]
    # What it says is last is last, also where the clock was quicker.
    assert ModelReader(run / "last.safetensors").card.update == 11


def test_a_checkpoint_that_is_the_best_model_is_written_once(toy: Toy) -> None:
    run = toy.train(validate_every=8, max_updates=8)
    best = run / "best.safetensors"
    for name in ("update-00000008", "best-00000008", "../last"):
        assert (run / f"checkpoints/{name}.safetensors").samefile(best)


def test_training_goes_on_while_a_model_is_written(toy: Toy) -> None:
    values: dict[str, Value] = {"max_updates": 16, "save_every": 8}
    expected = toy.undisturbed(**values)
    update_12_is_done = threading.Event()

    def slow(path: Path, *arguments: Any) -> None:
        if path.name == "update-00000008.safetensors":
            assert update_12_is_done.wait(timeout=LONG)
        write_model(path, *arguments)

    toy.patch.setattr(saving, "write_model", slow)
    at_updates(toy.patch, {12: update_12_is_done.set}, saves_first=False)
    assert_same_run(toy.train(**values), expected)


def test_a_missing_last_model_is_written_again(toy: Toy) -> None:
    last = toy.train(max_updates=10) / "last.safetensors"
    before = flat(last)
    for damage in (Path.unlink, lambda path: path.write_bytes(b"damaged")):
        damage(last)
        toy.train(max_updates=10)
        assert torch.equal(flat(last), before)
