"""A disk without room: told of before the start, and outlived by a run that is at work."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mishaps import at_updates, fill_up, free_bytes, full_at
from toy_training import (
    FP32,
    assert_same_run,
    content,
    environment,
    metrics,
    newest_state,
    nmt,
    nmt_command,
    settings_of,
    status,
    train,
)

from nmt.errors import NMTError
from nmt.models.model_file import ModelReader, load_model
from nmt.runs.run_folder import RunFolder
from nmt.values import Value

LONG: dict[str, Value] = {**FP32, "max_updates": 40}  # safe again at 24, 32 and 40

# --- before the start


def test_a_disk_too_small_for_the_run_is_told_before_the_start(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Callable[..., Path]
) -> None:
    # By hand, from files: three states; two checkpoints and one on its way; two best, two of the
    # state before and one on its way, but a run of 30 updates validates only four times; the last
    # model and one best of its own. Headers (below 10 kB a file) are not counted.
    files = undisturbed(**FP32) / "checkpoints"
    state, model = (min(files.glob(f"*.{end}")).stat().st_size for end in ("state", "safetensors"))
    needed = 3 * state + (3 + 4 + 2) * model
    free_bytes(monkeypatch, needed)
    train(data, tmp_path / "fits", **FP32 | {"max_updates": 30})
    free_bytes(monkeypatch, needed - 12 * 10_000)
    with pytest.raises(NMTError, match=r"3 training states .* and 9 models") as told:
        train(data, tmp_path / "run", **FP32)
    assert f"{tmp_path / 'run'}: the disk has" in str(told.value)
    assert "make room, lower keep_last or keep_best" in str(told.value)
    assert not (tmp_path / "run/config.toml").exists()
    # What a run has written already counts when it goes on.
    train(data, tmp_path / "fits", **FP32 | {"max_updates": 30})


def test_a_full_disk_at_the_start_is_told_in_one_line(data: Path, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))
    done = nmt("train", data, "--out", small_disk / "run", *settings_of())
    assert (done.returncode, done.stdout) == (1, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"nmt: error: {small_disk / 'run'}: the disk has 1.0 MB free")


# --- at work


@pytest.mark.parametrize("name", ["update-00000016.safetensors", "update-00000016.state"])
def test_a_save_that_fails_costs_that_save_alone(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    undisturbed: Callable[..., Path],
    name: str,
) -> None:
    run, seen = tmp_path / "run", dict[int, Any]()

    def look(update: int) -> None:
        seen[update] = status(run), content(run)

    with monkeypatch.context() as patch:
        full_at(patch, name)
        at_updates(patch, {update: partial(look, update) for update in (16, 17, 25)})
        train(data, run, **LONG)
    told = capsys.readouterr().err
    warned = f"not saved at update 16: {run / 'checkpoints' / name}: No space left on device"
    assert f"nmt: warning: {warned}; training continues" in told
    assert told.count("not saved") == 1
    assert f"warning: {warned}" in (run / "train.log").read_text()
    # What was saved before is still there, nothing half-written is, and status.json tells.
    before, (after_status, after) = seen[16][1], seen[17]
    saved = {one for one in before if one.startswith("checkpoints/")}
    assert saved <= after.keys()
    assert all(after[one] == before[one] for one in saved)
    assert not [one for one in after if one.endswith(".partial")]
    assert after_status == {"status": "running", "update": 16, "reason": warned}
    # The next save has gone well, and the run ends as if nothing had been.
    assert seen[25][0] == {"status": "running", "update": 24, "reason": ""}
    assert_same_run(run, undisturbed(**LONG))


def test_a_best_model_that_cannot_be_written_is_not_among_the_best(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        full_at(patch, "best-00000028.safetensors")
        train(data, run, **FP32)
    assert "not saved at update 28: " in capsys.readouterr().err
    best = newest_state(run)[0]["progress"]["best"]
    assert [update for _, update in best] == [21, 14]
    assert ModelReader(run / "best.safetensors").card.update == 21
    assert sorted(path.name for path in run.glob("checkpoints/best-*")) == [
        "best-00000014.safetensors",
        "best-00000021.safetensors",
    ]


def test_a_last_save_that_fails_is_an_error_and_can_be_made_up_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Callable[..., Path]
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(NMTError) as told:
        full_at(patch, "update-00000030.state")
        train(data, run, **FP32)
    assert "checkpoints/update-00000030.state: No space left on device" in str(told.value)
    assert told.value.exit_status == 1
    assert (status(run)["status"], status(run)["update"]) == ("failed", 30)
    assert newest_state(run)[0]["progress"]["update"] == 24
    train(data, run, **FP32)
    assert_same_run(run, undisturbed(**FP32))


def test_a_save_is_not_begun_where_it_has_no_room(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    undisturbed: Callable[..., Path],
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at_updates(
            patch, {15: lambda: free_bytes(patch, 1000), 17: lambda: free_bytes(patch, 10**9)}
        )
        train(data, run, **LONG)
    told = capsys.readouterr().err
    assert "update-00000016.safetensors: the disk has 0.0 MB free, and 0.1 MB are needed" in told
    assert_same_run(run, undisturbed(**LONG))


def test_a_run_outlives_a_disk_that_is_really_full(
    data: Path,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    undisturbed: Callable[..., Path],
) -> None:
    run, ballast = small_disk / "run", small_disk / "ballast"
    with monkeypatch.context() as patch:
        free_bytes(patch, 10**9)  # whoever asks is told of room; only writing finds out
        at_updates(patch, {15: lambda: fill_up(ballast), 17: ballast.unlink})
        train(data, run, **LONG)
    assert "not saved at update 16: " in capsys.readouterr().err
    for path in run.rglob("*.safetensors"):
        load_model(path)
    assert_same_run(run, undisturbed(**LONG))


@pytest.mark.slow
def test_two_processes_outlive_a_save_that_fails(data: Path, small_disk: Path) -> None:
    # What is needed is there at the start; then something else takes it, until a save has failed.
    run, ballast = small_disk / "run", small_disk / "ballast"
    settings = settings_of(**FP32 | {"max_updates": 200, "save_every": 50, "validate_every": 50})
    with subprocess.Popen(
        nmt_command("train", data, "--out", run, *settings, ranks=2),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as started:
        assert started.stderr is not None
        said = ""
        for line in started.stderr:
            said += line
            if "update 5 epoch" in line:
                ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 50_000))
            if "not saved" in line:
                ballast.unlink(missing_ok=True)
    assert started.returncode == 0, said
    assert "not saved at update" in said
    assert status(run)["status"] == "finished"


# --- logs


def test_lines_that_cannot_be_written_are_lost_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").symlink_to(full)
    (tmp_path / "train.log").symlink_to(full)
    for update in (1, 2):
        run.record({"update": update})
        run.log(f"update {update}")
    told = capsys.readouterr().err
    for name in ("metrics.jsonl", "train.log"):
        assert told.count(f"nmt: warning: {tmp_path / name}: No space left on device") == 1
    assert "nmt: update 2" in told


def test_a_line_is_written_whole_or_not_at_all(small_disk: Path) -> None:
    run, number = RunFolder(small_disk), 0
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 20_000))
    written = -1
    while written < (size := sum(path.stat().st_size for path in small_disk.glob("*.jsonl"))):
        written, number = size, number + 1
        run.record({"kind": "train", "update": number, "text": "x" * 5000})
    ballast.unlink()
    run.record({"kind": "train", "update": 1_000})
    updates = [record["update"] for record in metrics(small_disk)]
    assert updates == [*range(1, number), 1_000]
