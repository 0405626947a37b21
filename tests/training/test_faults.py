"""A run that is killed at any instant, or has its files damaged, and goes on bit for bit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from toy_training import (
    ENDLESS,
    FP32,
    assert_same_run,
    assert_same_state,
    content,
    metrics,
    newest_state,
    nmt,
    nmt_command,
    python_command,
    run_command,
    settings_of,
    status,
    train,
    training_until,
)

from nmt.errors import DataError
from nmt.models.model_file import load_model
from nmt.runs import checkpoint

KILLED_RUNS = Path(__file__).with_name("killed_runs.py")

# --- killed


def test_a_run_killed_at_any_instant_goes_on_bit_for_bit(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    instants = [
        "config.toml:1:before",  # before it is a run
        "update-00000000.state:1:before",  # before there is any state
        "best-00000007.safetensors:1:after",  # which the newest state does not know
        "update-00000008.state:1:before",  # with a model written whose state is not
        "last.safetensors:2:before",  # at update 16, between model and state
        "update-00000024.state:1:after",  # before older ones are removed
        "status.json:2:before",  # when all is done but to say so
    ]
    command: list[str | Path] = ["train", data, "--out", run, *settings_of(**FP32)]
    done = run_command(python_command(KILLED_RUNS, *instants, *command))
    assert done.returncode == 0, done.stderr
    assert "resuming at update 24" in done.stderr
    assert_same_run(run, undisturbed(**FP32))


def test_a_killed_run_is_not_taken_for_a_running_one(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    endless = settings_of(**ENDLESS)
    with training_until(run, 14, nmt_command("train", data, "--out", run, *endless)) as started:
        second = nmt("train", data, "--out", run, *endless)
        assert second.returncode == 75
        assert "another process is training here; wait" in second.stderr
        assert started.poll() is None
        started.kill()
        started.communicate()
    end = newest_state(run)[0]["progress"]["update"] + 9
    train(data, run, **FP32 | {"max_updates": end})
    assert_same_state(run, undisturbed(**FP32 | {"max_updates": end}))


@pytest.mark.parametrize(
    ("kills", "seed", "ema_decay"),
    [
        (3, 11, 0.9),
        pytest.param(25, 12, 0.9, marks=pytest.mark.slow),
        pytest.param(25, 13, 0.0, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(
    data: Path, tmp_path: Path, kills: int, seed: int, ema_decay: float
) -> None:
    # Records are of whole windows also after a save, so that all their metrics can be compared.
    values = FP32 | {"ema_decay": ema_decay, "log_every": 4, "max_updates": 60}
    settings = settings_of(**values, validate_bleu=True)
    command: list[str | Path] = ["train", data, *settings, "--out", tmp_path]
    done = run_command(python_command(KILLED_RUNS, str(seed), str(kills), *command))
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    runs = sorted(tmp_path.glob("killed-*"))
    assert runs
    for run in runs:
        try:
            assert_same_run(run, tmp_path / "undisturbed")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {run.name}: {error}\n{done.stderr}") from error


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
    assert "; resuming from update-00000016.state instead" in told
    assert "resuming from update-00000016.state" in (run / "train.log").read_text()
    assert "resuming at update 16" in told
    assert_same_run(run, undisturbed(**FP32))


def test_states_of_an_earlier_version_are_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "STATE_VERSION", 4)
        run = train(data, tmp_path / "run", max_updates=8)
    with pytest.raises(DataError, match=r"format version 4; this nmt reads .* another --out"):
        train(data, run, max_updates=16)


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
    with pytest.raises(DataError, match=r"all training states are damaged .*choose another --out"):
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
@pytest.mark.parametrize("how", ["SIGTERM", "SIGUSR1", "--time-limit"])
def test_two_processes_stop_together_and_go_on_bit_for_bit(
    data: Path, tmp_path: Path, how: str
) -> None:
    limit = ["--time-limit", "0.3"] if how == "--time-limit" else []

    def command(out: str, max_updates: int) -> list[str]:
        settings = settings_of(**FP32 | {"max_updates": max_updates})
        return nmt_command("train", data, "--out", tmp_path / out, *settings, ranks=2)

    endless = [*command("run", 1_000_000), *limit]
    with training_until(tmp_path / "run", 7, endless) as started:
        if not limit:
            started.send_signal(signal.Signals[how])
        started.communicate(timeout=20)  # what a preempted job has before it is killed
    found = status(tmp_path / "run")
    assert (found["status"], found["reason"]) == ("stopped", how.replace("--time-", "time "))
    end = found["update"] + 5
    for out in ("run", "at once"):
        done = run_command(command(out, end))
        assert done.returncode == 0, done.stderr
    assert_same_state(tmp_path / "run", tmp_path / "at once")
