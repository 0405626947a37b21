"""What goes wrong from outside: damaged files, disks without room. Kills: `test_mishaps.py`."""

import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mishaps import at_updates, fill_up, free_bytes, full_at, save_states_every
from toy_training import (
    FP32,
    Toy,
    assert_same_run,
    content,
    environment,
    metrics,
    newest_state,
    nmt_command,
    status,
)

from nmt.config.fields import Value
from nmt.errors import DataError, NMTError
from nmt.models.model_file import ModelReader, load_model
from nmt.runs.report import ValidationResult
from nmt.training.validation import Validator

LONG: dict[str, Value] = {**FP32, "max_updates": 32}  # safe again at 24 and 32
Capture = pytest.CaptureFixture[str]

# --- damaged


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def test_a_damaged_newest_state_is_passed_over(toy: Toy, capsys: Capture) -> None:
    save_states_every(toy.patch, 8)
    run = toy.train(**FP32 | {"max_updates": 20})
    cut_short(run / "checkpoints/update-00000020.state")
    capsys.readouterr()
    toy.train(**FP32)
    told, log = capsys.readouterr().err, (run / "train.log").read_text()
    assert "nmt: warning: " in told
    for text in (told, log):
        assert "update-00000020.state: damaged" in text
        assert "from update-00000016.state" in text
        assert "resuming at update 16" in text
    assert_same_run(run, toy.undisturbed(**FP32))


def test_what_lies_beyond_the_state_that_is_used_goes(toy: Toy) -> None:
    save_states_every(toy.patch, 8)
    run = toy.train(max_updates=24)
    cut_short(run / "checkpoints/update-00000024.state")
    # On from update 16 with other cadences, which make neither best-21 nor update-24 again.
    toy.train(max_updates=20, validate_every=20, save_every=20)
    found = sorted(path.name for path in run.glob("checkpoints/*.safetensors"))
    assert found == [
        "best-00000020.safetensors",
        *(f"update-{update:08d}.safetensors" for update in (8, 16, 20)),
    ]
    assert [record["update"] for record in metrics(run, "valid")] == [7, 14, 20]


def test_nothing_but_damaged_states_is_an_error_that_loses_nothing(toy: Toy) -> None:
    run = toy.train(**FP32)
    for path in run.glob("checkpoints/*.state"):
        cut_short(path)
    models = {name: held for name, held in content(run).items() if name.endswith(".safetensors")}
    with pytest.raises(DataError, match=r"damaged.*--out"):
        toy.train(**FP32 | {"max_updates": 40})
    assert status(run)["status"] == "failed"
    assert models.items() <= content(run).items()


@pytest.mark.parametrize("kept", ["checkpoints/best-*.safetensors", "last.safetensors"])
def test_a_run_without_its_states_does_not_begin_again_over_its_models(toy: Toy, kept: str) -> None:
    run = toy.train(max_updates=2, validate_every=2)
    for path in [*run.glob("checkpoints/*"), *run.glob("*.safetensors")]:
        if path not in run.glob(kept):
            path.unlink()
    with pytest.raises(DataError, match=r"models.*--out"):
        toy.train(max_updates=4, validate_every=2)
    assert list(run.glob(kept))


# --- no room before the start


def test_a_disk_too_small_for_the_run_is_told_before_the_start(toy: Toy) -> None:
    # By hand, from files: three states; two checkpoints and one on its way; two best, two of the
    # state before and one on its way, as a run of 30 updates validates five times; the last
    # model and one best of its own. Headers (below 10 kB a file) are not counted.
    files = toy.undisturbed(**FP32) / "checkpoints"
    state, model = (min(files.glob(f"*.{end}")).stat().st_size for end in ("state", "safetensors"))
    needed = 3 * state + (3 + 5 + 2) * model
    free_bytes(toy.patch, needed)
    toy.train("fits", **FP32)
    free_bytes(toy.patch, needed - 12 * 10_000)
    with pytest.raises(NMTError, match=r"3 .*states .*10 models") as told:
        toy.train(**FP32)
    assert f"{toy.folder / 'run'}: " in str(told.value)
    assert "keep_last or keep_best" in str(told.value)
    assert not (toy.folder / "run/config.toml").exists()
    # What a run has written already counts when it goes on.
    toy.train("fits", **FP32)


# --- no room at work


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("update-00000016.safetensors", "No space left"),
        ("update-00000016.state", "No space left"),
        ("update-00000016.safetensors", "the disk has 0.0 MB"),  # it is not begun then
    ],
)
def test_a_failing_save_costs_itself(toy: Toy, capsys: Capture, name: str, problem: str) -> None:
    run, seen = toy.folder / "run", dict[int, Any]()
    save_states_every(toy.patch, 8)

    def look(update: int) -> None:
        seen[update] = status(run), content(run)

    with toy.patch.context() as patch:
        if problem.startswith("No"):
            full_at(patch, name)
        else:
            little, enough = (partial(free_bytes, patch, free) for free in (1000, 10**9))
            at_updates(patch, {15: little, 17: enough})
        at_updates(patch, {update: partial(look, update) for update in (16, 17, 25)})
        toy.train(**LONG)
    told = capsys.readouterr().err
    warned = f"not saved at update 16: {run / 'checkpoints' / name}: {problem}"
    assert f"nmt: warning: {warned}" in told
    assert told.count("not saved") == told.count("; training continues") == 1
    assert f"warning: {warned}" in (run / "train.log").read_text()
    # What was saved before is still there, nothing half-written is, and status.json tells.
    before, (after_status, after) = seen[16][1], seen[17]
    saved = {one for one in before if one.startswith("checkpoints/")}
    assert {one: before[one] for one in saved}.items() <= after.items()
    assert not [one for one in after if one.endswith(".partial")]
    assert (after_status["status"], after_status["update"]) == ("running", 16)
    assert after_status["reason"].startswith(warned)
    # The next save has gone well, and the run ends as if nothing had been.
    assert seen[25][0] == {"status": "running", "update": 24, "reason": ""}
    assert_same_run(run, toy.undisturbed(**LONG))


def test_a_worse_model_than_one_that_could_not_be_written_is_among_the_best(toy: Toy) -> None:
    results = iter([ValidationResult(loss, loss) for loss in (4.0, 2.0, 3.0, 3.5)])
    seen: list[list[str]] = []

    def look() -> None:
        seen.append(sorted(path.name for path in run.glob("checkpoints/best-*")))

    run = toy.folder / "run"
    toy.patch.setattr(Validator, "measure", lambda *_: next(results))
    full_at(toy.patch, "best-00000006.safetensors")
    save_states_every(toy.patch, 6)  # the state of update 6, too, does without the model
    at_updates(toy.patch, {7: look, 10: look})
    toy.train(validate_every=3, max_updates=12)
    assert seen == [["best-00000003.safetensors"], ["best-00000009.safetensors"]]
    assert newest_state(run)[0]["progress"]["best"] == [[3.0, 3.0, 9]]
    assert ModelReader(run / "best.safetensors").card.update == 9


def test_a_state_that_could_not_be_written_is_written_with_the_next_checkpoint(toy: Toy) -> None:
    clock, seen = [0.0], list[bool]()
    run = toy.folder / "run"
    toy.patch.setattr("nmt.training.saving.time.monotonic", lambda: clock[0])
    full_at(toy.patch, "update-00000012.state")
    at_updates(
        toy.patch,
        {
            11: lambda: clock.append(clock.pop() + 3600),  # so that one is due after update 12
            17: lambda: seen.append((run / "checkpoints/update-00000016.state").exists()),
        },
    )
    toy.train()
    assert seen == [True]


def test_a_last_save_that_fails_is_an_error_and_can_be_made_up_for(toy: Toy) -> None:
    run = toy.folder / "run"
    save_states_every(toy.patch, 8)
    with toy.patch.context() as patch, pytest.raises(NMTError) as told:
        full_at(patch, "update-00000030.state")
        toy.train(**FP32)
    assert "update-00000030.state: No space left" in str(told.value)
    assert told.value.exit_status == 1
    assert (status(run)["status"], status(run)["update"]) == ("failed", 30)
    assert newest_state(run)[0]["progress"]["update"] == 24
    toy.train(**FP32)
    assert_same_run(run, toy.undisturbed(**FP32))


def test_a_run_outlives_a_disk_really_full(toy: Toy, small_disk: Path, capsys: Capture) -> None:
    ballast = small_disk / "ballast"
    with toy.patch.context() as patch:
        free_bytes(patch, 10**9)  # whoever asks is told of room; only writing finds out
        at_updates(patch, {15: lambda: fill_up(ballast), 17: ballast.unlink})
        run = toy.train(small_disk / "run", **LONG)
    assert "not saved at update 16: " in capsys.readouterr().err
    for path in run.rglob("*.safetensors"):
        load_model(path)
    assert_same_run(run, toy.undisturbed(**LONG))


@pytest.mark.slow
def test_two_processes_outlive_a_save_that_fails(toy: Toy, small_disk: Path) -> None:
    # What is needed is there at the start; then something else takes it, until a save has failed.
    run, ballast = small_disk / "run", small_disk / "ballast"
    words = toy.words(run, **FP32 | {"max_updates": 200, "save_every": 50, "validate_every": 50})
    with subprocess.Popen(
        nmt_command(*words, ranks=2), stderr=subprocess.PIPE, text=True, env=environment()
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
