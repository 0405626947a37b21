"""`nmt train --dry-run`: its estimates are those of the run, which it does not start."""

import itertools
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from calls import calls_of
from toy_training import Toy, content, nmt, prepare_toy, recipe, train

from nmt.config.fields import Value
from nmt.errors import NMTError, UsageError
from nmt.models.registry import count_parameters
from nmt.training import dry_run as module
from nmt.training.choose_recipe import TrainCommand
from nmt.training.dry_run import MAIN_ROWS, dry_run
from nmt.training.run_metrics import MetricsWindow
from nmt.training.update import TrainStep
from nmt.training.validation import Validator

GRADIENT_BYTES = 4 * count_parameters("transformer", recipe().model, 345, 345)


@pytest.fixture(autouse=True)
def _one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIAL_SECONDS", 0.0)


def seconds_of(text: str) -> float:
    """Read a duration."""
    number, unit = text.split()
    return float(number) * {"second": 1, "minute": 60, "hour": 3600}[unit.removesuffix("s")]


def rows(data: Path, out: Path, **values: Value) -> dict[str, str]:
    return dict(dry_run(recipe(**values), TrainCommand(data, out)))


def measure(monkeypatch: pytest.MonkeyPatch, parts: int = 1) -> None:
    """Let the trial find 2.5 seconds an update, of which it does one of some parts."""
    rates = {"updates_per_second": 0.4 * parts, "tokens_per_second": 1_234.5 * parts}
    metrics = rates | {"mfu": 0.625}
    monkeypatch.setattr(MetricsWindow, "metrics", lambda *_: metrics)


@pytest.mark.parametrize(("schedule", "said"), [("linear", ""), ("until_flat", "at most ")])
def test_a_run_that_may_end_sooner_takes_at_most_so_long(
    toy: Toy, schedule: str, said: str
) -> None:
    found = rows(toy.data, toy.folder / "run", max_updates=9, schedule=schedule)
    assert found["in short"].startswith(f"{said}{found['time in all']} in all, ")


def test_what_it_foretells_follows_from_what_it_measures(toy: Toy) -> None:
    measure(toy.patch, parts=2)  # 200 tokens in micro-batches of 120
    toy.patch.setattr(module, "_A100_RATE", 1e9)
    toy.patch.setattr(Validator, "estimated_seconds", lambda *_: 12.0)
    # At this rate a model, of weights in fp32, is written in a second; and a state, of three times
    # as many, and two counts, in three.
    toy.patch.setattr(module, "_DISK_RATE", GRADIENT_BYTES)
    values: dict[str, Value] = {"validate_every": 30, "save_every": 30, "save_minutes": 1}
    found = rows(toy.data, toy.folder / "run", max_updates=3_000, learning_rate=3e-3, **values)
    assert found["in short"].startswith(f"{found['time in all']} in all, ")
    assert "MB free, which fits; " in found["in short"]
    assert found.keys() >= {*MAIN_ROWS} and len(MAIN_ROWS) == 10
    assert re.search(r", (1 thread|[2-9]\d* threads)$", found["device"])
    assert found["parameters"] == f"{GRADIENT_BYTES // 4:,}"
    assert found["updates an epoch, about"] == "7"
    assert found["epochs, about"] == "428.6"
    assert "120 tokens" in found["micro-batch"]
    assert found["time an update"] == "2.5 s"
    assert found["time of all updates"] == "2.1 hours"  # 7,500 seconds
    assert re.match("20.0 minutes: 100 .*12 s$", found["time of validating"])
    # 100 checkpoints, 100 models among the best, and a state in each of 145 minutes
    saving = seconds_of(found["time of saving, meanwhile"])
    assert saving == pytest.approx(100 + 100 + 435, rel=0.05)
    assert seconds_of(found["time in all"]) == pytest.approx(7_500 + 1_200, rel=0.03)
    assert re.match("measured .*1/2 of 1 ", found["how sure"])
    assert found["tokens a second"] == "1,234"
    operations = float(found["operations of all updates"])
    elsewhere = seconds_of(found["on one NVIDIA A100, at least"].partition(",")[0])
    assert elsewhere == pytest.approx(operations / 0.3e9, rel=0.1)
    parts = [size for name, size in found.items() if re.match("memory: ", name)]
    assert len(parts) == 4  # weights, gradient, Adam, a micro-batch
    megabytes = [float(size.removesuffix(" MB").replace(",", "")) for size in parts]
    expected = float(found["memory, expected"].removesuffix(" MB"))
    assert sum(megabytes) == pytest.approx(expected, abs=0.2)  # each is rounded


def test_what_comes_once_does_not_count_for_all_updates(toy: Toy) -> None:
    rates = itertools.chain([0.8, 0.001, 0.001], itertools.repeat(0.8))  # two are an update
    toy.patch.setattr(
        MetricsWindow,
        "metrics",
        lambda *_: {"updates_per_second": next(rates), "tokens_per_second": 1.0, "mfu": 0.5},
    )
    toy.patch.setattr(module, "TRIAL_SECONDS", 1.0)
    clock = itertools.count(step=0.05)  # which is asked once a round
    toy.patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert rows(toy.data, toy.folder / "run")["time an update"] == "2.5 s"


def test_the_disk_that_it_names_is_what_a_start_asks_for(toy: Toy) -> None:
    needed = rows(toy.data, toy.folder / "run")["disk, at most"]
    toy.patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(NMTError, match=re.escape(needed)):
        toy.train()


def test_it_leaves_a_run_alone_that_is_there(toy: Toy) -> None:
    run = toy.train(max_updates=4)
    before = content(run)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    rows(toy.data, run, max_updates=20)
    assert content(run) == before
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with a vocabulary for each side."""
    return prepare_toy(tmp_path_factory.mktemp("separate"), separate_vocab=True)


@pytest.mark.parametrize(
    ("out", "values", "message"),
    [
        ("run", {"tie_embeddings": "all"}, "tie_embeddings=decoder"),
        ("run", {"batch_tokens": 20}, "batch_tokens .*20, .* 46"),
        ("run", {"positions": "learned", "max_positions": 256}, "257 tokens.*max_positions=257"),
        ("mine", {}, "has other files"),
        ("mine/thesis.txt", {}, "not a folder"),
    ],
)
def test_both_it_and_training_refuse_what_does_not_fit(
    separate: Path, tmp_path: Path, out: str, values: dict[str, Value], message: str
) -> None:
    run = tmp_path / out
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    for command in (rows, train):
        with pytest.raises(UsageError, match=message):
            command(separate, run, **{"tie_embeddings": "none", "max_updates": 1, **values})
    assert content(tmp_path / "mine") == {"thesis.txt": b"mine"}
    if out == "run":  # can be put right in the same folder
        train(separate, run, tie_embeddings="none", max_updates=1)


def test_for_processes_that_are_not_there_the_sum_of_gradients_is_added(toy: Toy) -> None:
    measure(toy.patch)
    # Of four processes each sends its gradient one and a half times, here in 3 seconds.
    toy.patch.setitem(module._SUM_RATE, "cpu", GRADIENT_BYTES / 2)
    toy.patch.setenv("WORLD_SIZE", "4")
    found = rows(toy.data, toy.folder / "run", max_updates=3_000)
    assert found["processes"] == "4"
    assert found["time an update"] == "5.5 s"
    assert found["time of all updates"] == "4.6 hours"
    assert re.match("estimate: .*1/4 of 1 ", found["how sure"])


def test_it_validates_the_weights_that_a_run_validates(toy: Toy) -> None:
    types: list[torch.dtype] = []

    def estimated_seconds(_: Validator, model: torch.nn.Module) -> float:
        types.extend({parameter.dtype for parameter in model.parameters()})
        return 1.0

    toy.patch.setattr(Validator, "estimated_seconds", estimated_seconds)
    rows(toy.data, toy.folder / "run", precision="bf16")
    assert types == [torch.float32]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_process_does_a_share_of_a_large_update(toy: Toy, processes: str) -> None:
    calls = calls_of(toy.patch, TrainStep, "run")
    toy.patch.setenv("WORLD_SIZE", processes)
    rows(toy.data, toy.folder / "run")
    _, update, _ = calls[-1]
    whole = update.lengths.src + update.lengths.tgt
    assert 0.3 * whole < update.own_tokens < 0.7 * whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "ranks", "told"),
    [((), 2, "2, by torchrun"), (("--processes", "2"), None, "2, as asked")],
)
def test_all_processes_measure_and_one_prints_a_table(
    toy: Toy, words: tuple[str, ...], ranks: int | None, told: str
) -> None:
    done = nmt(*toy.words("run", "--dry-run", "--verbose", *words), ranks=ranks)
    assert done.returncode == 0, done.stderr
    answer, *table = done.stdout.splitlines()
    assert " in all, " in answer
    found = dict(line.split("\t") for line in table)
    assert next(iter(found.items())) == ("what", "value")
    assert found["preset"] == "transformer_tiny"
    assert found["processes"] == told
    assert re.fullmatch(r"[\d.e-]+ s", found["time an update"])
    assert re.fullmatch(r"[\d,.]+ MB", found["memory, measured"])
    assert re.match("measured .*2 processes", found["how sure"])
    assert not (toy.folder / "run").exists()
