"""A run that was stopped, killed or damaged, and goes on as if it had not been: bit for bit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from toy_training import (
    content,
    environment,
    metrics,
    newest_state,
    nmt,
    nmt_command,
    settings_of,
    signal_after,
    status,
    stopped_after,
    train,
    weights,
)

from nmt.config import Value
from nmt.errors import DataError, Stopped
from nmt.models.model_file import ModelReader, load_model
from nmt.search import translator
from nmt.training import validation
from nmt.training.run_folder import RunFolder

FP32: dict[str, Value] = {"ema_decay": 0.9, "keep_last": 2, "keep_best": 2}
BF16: dict[str, Value] = {**FP32, "precision": "bf16", "clip_norm": 1.0}
FP16: dict[str, Value] = {**FP32, "precision": "fp16"}
FROZEN: dict[str, Value] = {**FP32, "freeze": "encoder.*"}
ENDLESS: dict[str, Value] = {**FP32, "max_updates": 1_000_000}


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the run of some values that was never stopped."""
    made: dict[tuple[tuple[str, Value], ...], Path] = {}

    def find(**values: Value) -> Path:
        key = tuple(sorted(values.items()))
        if key not in made:
            made[key] = train(data, tmp_path_factory.mktemp("undisturbed") / "run", **values)
        return made[key]

    return find


def assert_same_run(run: Path, expected: Path) -> None:
    """Check everything that is a function of recipe and data: all but times and speeds."""
    header, vectors = newest_state(run)
    expected_header, expected_vectors = newest_state(expected)
    for found in (header, expected_header):
        del found["progress"]["seconds"]
    assert header == expected_header
    assert vectors.keys() == expected_vectors.keys()
    for name, vector in vectors.items():
        assert torch.equal(vector, expected_vectors[name]), name
    models = sorted(path.relative_to(expected) for path in expected.rglob("*.safetensors"))
    assert sorted(path.relative_to(run) for path in run.rglob("*.safetensors")) == models
    for path in models:
        written, wanted = weights(run / path), weights(expected / path)
        assert all(torch.equal(written[name], wanted[name]) for name in wanted), path
        assert ModelReader(run / path).card.valid == ModelReader(expected / path).card.valid
    assert metrics(run, "valid") == metrics(expected, "valid")
    for record, wanted_record in zip(
        metrics(run, "train"), metrics(expected, "train"), strict=True
    ):
        for key in ("update", "epoch", "learning_rate", "grad_norm"):
            assert record[key] == wanted_record[key]
    assert status(run) == status(expected)
    assert not list(run.rglob("*.partial"))


# --- stopped on request


@pytest.mark.parametrize(
    "values", [FP32, BF16, FP16, FROZEN], ids=["fp32", "bf16", "fp16", "frozen"]
)
def test_a_stopped_run_goes_on_bit_for_bit(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[..., Path],
    values: dict[str, Value],
) -> None:
    # With dropout, in mid-epoch (seven updates each), off every cadence; then on each of them.
    for update in (4, 13, 14, 16, 30):
        run = stopped_after(monkeypatch, update, data, tmp_path / "run", **values)
        assert status(run) == {"status": "stopped", "update": update, "reason": "SIGTERM"}
    train(data, run, **values)
    assert_same_run(run, undisturbed(**values))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_every_signal_stops_with_everything_saved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    signal_after(monkeypatch, 3, number)
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=f"stopped at update 3 \\({number.name}\\), everything saved"):
        train(data, run)
    assert status(run) == {"status": "stopped", "update": 3, "reason": number.name}
    assert newest_state(run)[0]["progress"]["update"] == 3
    assert ModelReader(run / "last.safetensors").card.update == 3
    assert signal.getsignal(number) == before


def test_ctrl_c_twice_does_not_wait(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hurried(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(validation, "smoothed_cross_entropy", hurried)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "function"),
    [(validation, "smoothed_cross_entropy"), (translator, "beam_search")],
    ids=["loss", "translation"],
)
def test_a_stop_in_validation_is_answered_at_once(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[..., Path],
    module: object,
    function: str,
) -> None:
    # Update 8 is saved and validated, so that the checkpoint is there before its figures are.
    values: dict[str, Value] = {**FP32, "validate_every": 4, "validate_bleu": True}
    calls = 0
    plain = getattr(module, function)

    def signal_in_the_second_validation(*arguments: object) -> object:
        nonlocal calls
        calls += validated_last(tmp_path / "run") == 4
        if calls == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*arguments)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match="at update 8"):
        patch.setattr(module, function, signal_in_the_second_validation)
        train(data, tmp_path / "run", **values)
    assert calls == 1  # no more batches were looked at
    assert [record["update"] for record in metrics(tmp_path / "run", "valid")] == [4]
    run = train(data, tmp_path / "run", **values)
    header, vectors = newest_state(run)
    _, expected = newest_state(undisturbed(**values))
    assert all(torch.equal(vectors[name], expected[name]) for name in expected)
    assert metrics(run, "valid") == metrics(undisturbed(**values), "valid")
    assert header["progress"]["validated"] == 28


def test_the_command_says_that_it_stopped_and_goes_on(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    endless = nmt_command("train", data, "--out", run, *settings_of(**ENDLESS))
    with training_until(run, 7, endless) as started:
        started.terminate()
        stdout, stderr = started.communicate()
    update = status(run)["update"]
    assert (started.returncode, stdout) == (75, "")
    assert stderr.splitlines()[-1] == (
        f"nmt: warning: stopped at update {update:,} (SIGTERM), everything saved; run the same "
        "command again to go on"
    )
    assert status(run) == {"status": "stopped", "update": update, "reason": "SIGTERM"}
    end = update + 5
    done = nmt("train", data, "--out", run, *settings_of(**FP32 | {"max_updates": end}))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"going on at update {update:,}" in done.stderr
    _, vectors = newest_state(run)
    _, expected = newest_state(undisturbed(**FP32 | {"max_updates": end}))
    assert all(torch.equal(vectors[name], expected[name]) for name in expected)


@contextlib.contextmanager
def training_until(run: Path, update: int, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a run that has no end of its own, and wait until it has validated an update."""
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        while validated_last(run) < update:
            assert started.poll() is None, started.communicate()[1]
            time.sleep(0.02)
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
            started.communicate()


def validated_last(run: Path) -> int:
    """The update that a run which may be at work has validated last."""
    lines = (run / "train.log").read_text().splitlines() if (run / "train.log").exists() else []
    found = [re.search(r"update ([\d,]+) valid:", line) for line in lines]
    return max((int(match[1].replace(",", "")) for match in found if match), default=0)


# --- killed


# One process imports torch, and a child of it is killed at each instant: file, which time it is
# written, and whether before or after it gets its name.
KILLED = """
import os, signal, sys
from pathlib import Path
import nmt.training.launch
from nmt.cli import main

replace = os.replace

def die_at(name, times, when):
    def replace_and_die(source, target):
        nonlocal times
        times -= Path(target).name == name
        if times or when == "after":
            replace(source, target)
        if not times:
            os.kill(os.getpid(), signal.SIGKILL)
    os.replace = replace_and_die

while len(sys.argv) > 1 and sys.argv[1] != "train":
    _, name, times, when, *arguments = sys.argv
    child = os.fork()
    if not child:
        die_at(name, int(times), when)
        sys.argv[1:] = arguments[arguments.index("train"):]
        main()
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (name, status)
    sys.argv[1:] = arguments
"""


def test_a_run_killed_at_any_instant_goes_on_bit_for_bit(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    instants = [
        *("config.toml", "1", "before"),  # before it is a run
        *("best-00000007.safetensors", "1", "after"),  # before there is any state
        *("update-00000008.state", "1", "before"),  # with a model written whose state is not
        *("last.safetensors", "2", "before"),  # at update 16, between model and state
        *("update-00000024.state", "1", "after"),  # before older ones are removed
        *("status.json", "2", "before"),  # when all is done but to say so
    ]
    arguments = ["train", str(data), "--out", str(run), *settings_of(**FP32)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *instants, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "going on at update 24" in done.stderr
    train(data, run, **FP32)
    assert_same_run(run, undisturbed(**FP32))


def test_a_killed_run_is_not_taken_for_a_running_one(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    endless = settings_of(**ENDLESS)
    with training_until(run, 14, nmt_command("train", data, "--out", run, *endless)) as started:
        second = nmt("train", data, "--out", run, *endless)
        assert second.returncode == 75
        assert "another process is training here; nothing touched" in second.stderr
        assert started.poll() is None
        started.kill()
        started.communicate()
    state = newest_state(run)[0]["progress"]["update"]
    end = state + 9
    train(data, run, **FP32 | {"max_updates": end})
    _, vectors = newest_state(run)
    _, expected = newest_state(undisturbed(**FP32 | {"max_updates": end}))
    assert all(torch.equal(vectors[name], expected[name]) for name in expected)


# --- gone on with on purpose


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_going_on_for_longer_is_having_asked_for_it_at_once(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path], schedule: str
) -> None:
    values = {**FP32, "schedule": schedule}
    run = train(data, tmp_path / "run", **values | {"max_updates": 15})
    assert status(run)["status"] == "finished"
    train(data, run, **values)
    assert_same_run(run, undisturbed(**values))


def test_a_finished_run_run_again_changes_nothing(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = train(data, tmp_path / "run", **FP32)
    before = content(run)
    train(data, run, **FP32)
    after = content(run)
    for found in (before, after):
        del found["train.log"], found["curves.svg"]
    assert after == before
    assert_same_run(run, undisturbed(**FP32))


def test_metrics_written_beyond_the_state_are_cut_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for kind, update in [("train", 5), ("valid", 7), ("train", 10), ("valid", 10), ("train", 15)]:
        run.record({"kind": kind, "update": update})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upd')  # a crash in the middle of a line
    run.cut_metrics(10, validated=7)
    found = [(record["kind"], record["update"]) for record in metrics(tmp_path)]
    assert found == [("train", 5), ("valid", 7), ("train", 10)]


# --- damaged


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip_byte, cut_short, empty])
def test_a_damaged_newest_state_is_passed_over(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    undisturbed: Callable[..., Path],
    damage: Callable[[Path], None],
) -> None:
    run = train(data, tmp_path / "run", **FP32 | {"max_updates": 20})
    damage(run / "checkpoints/update-00000020.state")
    capsys.readouterr()
    train(data, run, **FP32)
    told = capsys.readouterr().err
    assert "nmt: warning: " in told
    assert "update-00000020.state: damaged" in told
    assert "looking for the one before it" in told
    assert "going on at update 16" in told
    assert_same_run(run, undisturbed(**FP32))


def test_what_lies_beyond_the_state_that_is_used_goes(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", max_updates=24)
    cut_short(run / "checkpoints/update-00000024.state")
    # On from update 16 with other cadences, which make neither best-21 nor update-24 again.
    train(data, run, max_updates=20, validate_every=20, save_every=20)
    found = sorted(path.name for path in run.glob("checkpoints/*.safetensors"))
    assert found == [
        "best-00000020.safetensors",
        *(f"update-{update:08d}.safetensors" for update in (8, 16, 20)),
    ]
    assert [record["update"] for record in metrics(run, "valid")] == [7, 14, 20]


def test_nothing_but_damaged_states_is_an_error_that_loses_nothing(
    data: Path, tmp_path: Path
) -> None:
    run = train(data, tmp_path / "run", **FP32)
    for path in run.glob("checkpoints/*.state"):
        flip_byte(path)
    models = {name: held for name, held in content(run).items() if name.endswith(".safetensors")}
    with pytest.raises(DataError, match="no training state is whole; choose another --out"):
        train(data, run, **FP32 | {"max_updates": 40})
    assert status(run)["status"] == "failed"
    after = content(run)
    assert {name: after[name] for name in models} == models


def test_a_damaged_model_file_is_refused(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", max_updates=16)
    older, newer = sorted(run.glob("checkpoints/update-*.safetensors"))
    flip_byte(newer)
    with pytest.raises(DataError, match=r"update-00000016\.safetensors: damaged"):
        load_model(newer)
    average = nmt("average", older, newer, "--out", tmp_path / "mean.safetensors")
    translate = nmt("translate", newer, input="one two\n")
    for done in (average, translate):
        assert (done.returncode, done.stdout) == (1, "")
        assert f"nmt: error: {newer}: damaged: its checksum" in done.stderr
    assert not (tmp_path / "mean.safetensors").exists()


# --- two processes


@pytest.mark.slow
def test_two_processes_stop_together_and_go_on_bit_for_bit(data: Path, tmp_path: Path) -> None:
    def command(out: str, max_updates: int) -> list[str]:
        settings = settings_of(**FP32 | {"max_updates": max_updates})
        return nmt_command("train", data, "--out", tmp_path / out, *settings, ranks=2)

    with training_until(tmp_path / "run", 7, command("run", 1_000_000)) as started:
        started.terminate()
        started.communicate()
    found = status(tmp_path / "run")
    assert found["status"] == "stopped"
    end = found["update"] + 5
    for out in ("run", "at once"):
        done = subprocess.run(
            command(out, end), capture_output=True, text=True, check=False, env=environment()
        )
        assert done.returncode == 0, done.stderr
    _, vectors = newest_state(tmp_path / "run")
    _, expected = newest_state(tmp_path / "at once")
    assert all(torch.equal(vectors[name], expected[name]) for name in expected)
