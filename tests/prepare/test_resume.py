"""A folder appears when it is complete, a stopped run goes on, and what is there is not touched."""

import errno
import re
import shutil
from pathlib import Path

import pytest
from command_line import Stderr
from prepare_job import Job, content, pairs, stop, write

from nmt.data.shards import ShardBuilder
from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.prepare.resume import building_folder, check_space, check_target, empty_folder
from nmt.system.files import lock


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -------------------------------------------------------------------------- building a folder


def test_a_folder_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "data"
    with building_folder(out) as folder:
        (folder / "file").write_text("whole")
        (folder / "progress" / "half").touch()
        assert names(out.parent) == ["data.partial"]
    assert names(out.parent) == ["data"]
    assert content(out) == {"file": b"whole"}


@pytest.mark.parametrize(
    ("error", "raised", "message", "left"),
    [
        (KeyboardInterrupt(), Stopped, "stopped; ", ["data.partial"]),
        (OSError(errno.ENOSPC, "full"), NMTError, "disk is full", ["data.partial"]),
        (OSError(errno.EDQUOT, "full"), NMTError, "disk is full", ["data.partial"]),
        (OSError(errno.EIO, "odd"), OSError, "odd", ["data.partial"]),
        (NMTError("a worker died"), NMTError, "a worker died", ["data.partial"]),
        (MemoryError("all"), MemoryError, "all", ["data.partial"]),
        # The fault of the text or the options: another run could not use what was done.
        (DataError("bad text"), DataError, "bad text", []),
        (UsageError("cannot be done"), UsageError, "cannot be done", []),
    ],
)
@pytest.mark.parametrize("progress", [True, False])
def test_a_run_that_fails_leaves_the_progress_that_another_can_use(
    tmp_path: Path,
    progress: bool,
    error: BaseException,
    raised: type[BaseException],
    message: str,
    left: list[str],
) -> None:
    with pytest.raises(raised, match=message), building_folder(tmp_path / "data") as folder:
        (folder / "file").touch()
        if progress:
            (folder / "progress" / "half").touch()
        raise error
    assert names(tmp_path) == (left if progress else [])


def test_a_run_that_was_killed_just_before_the_end_is_known_for_ours(tmp_path: Path) -> None:
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "dataset.json").touch()
    with building_folder(tmp_path / "data") as folder:
        empty_folder(folder)
    assert names(tmp_path) == ["data"]


def test_what_something_else_has_put_in_the_way_stays(tmp_path: Path) -> None:
    out, partial = tmp_path / "data", tmp_path / "data.partial"
    with pytest.raises(UsageError, match="data was created"), building_folder(out):
        out.mkdir()
        (out / "file").write_text("of the other")
    assert names(tmp_path) == ["data"]
    assert content(out) == {"file": b"of the other"}
    partial.mkdir()
    (partial / "notes").touch()
    with pytest.raises(UsageError, match=r"data\.partial"), building_folder(out):
        pass
    assert names(partial) == ["notes"]


def test_a_link_that_was_planted_in_place_of_the_unfinished_folder_stays(tmp_path: Path) -> None:
    victim, partial = tmp_path / "victim", tmp_path / "data.partial"
    victim.mkdir()
    (victim / "dataset.json").write_text("of somebody")
    partial.symlink_to(victim)
    with pytest.raises(UsageError, match=r"data\.partial"), building_folder(tmp_path / "data"):
        pass
    assert content(victim) == {"dataset.json": b"of somebody"}


def test_two_runs_do_not_build_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.system.files._LOCK_SECONDS", 0)
    out = tmp_path / "data"
    with building_folder(out) as folder:
        (folder / "file").touch()
        with pytest.raises(Stopped, match="data"), building_folder(out):
            pass
        assert names(folder) == ["file", "progress"]


def test_places_where_no_folder_can_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_target(tmp_path / "new" / "data")
    with pytest.raises(UsageError, match="is a file; choose"):
        check_target(tmp_path / "file")
    with pytest.raises(UsageError, match="file"):
        check_target(tmp_path / "file" / "data")


def test_a_disk_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil._ntuple_diskusage(10_000_000, 8_000_000, 2_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    out = tmp_path / "new" / "data"
    check_space(out, 2_000_000)
    with pytest.raises(NMTError, match=r"2\.0 MB .*3\.0 MB"):
        check_space(out, 3_000_000)
    # What an earlier run has left there need not be written again.
    left = tmp_path / "new" / "data.partial"
    left.mkdir(parents=True)
    (left / "shard").write_bytes(bytes(1_000_000))
    check_space(out, 3_000_000)


# ---------------------------------------------------------------------- a folder that is there


def test_preparing_the_same_changes_nothing(job: Job, tmp_path: Path, stderr: Stderr) -> None:
    fingerprint = job.but(keep=("ratio", "control"), encoding="UTF8").prepare().fingerprint
    before = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    stderr()
    # The order of the rules, the encoding's spelling and the name of the text do not matter.
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").rename(tmp_path / f"moved.{lang}")
    same = job.but(keep=("control", "ratio", "control"), train=(f"{tmp_path}/moved",))
    assert same.prepare().fingerprint == fingerprint
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == before
    assert "already prepared" in stderr()


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_folder_that_another_process_finishes_meanwhile_is_the_answer(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: Stderr, is_opened: bool
) -> None:
    """It renames its folder before we lock that: the one that we have opened, or before."""
    other = job.but(out=tmp_path / "other").prepare()

    def finish_and_lock(descriptor: int, path: Path, busy: str) -> None:
        if not job.out.exists():
            shutil.copytree(other.path, job.out)
            if is_opened:
                path.rmdir()
        lock(descriptor, path, busy)

    monkeypatch.setattr("nmt.system.files.lock", finish_and_lock)
    assert job.prepare().fingerprint == other.fingerprint
    assert "already prepared" in stderr()
    assert names(job.out.parent) == [job.out.name]
    shutil.rmtree(job.out)
    with pytest.raises(UsageError, match="options"):
        job.but(keep=("ratio",)).prepare()


def test_other_options_and_text_are_refused_with_what_differs(job: Job, tmp_path: Path) -> None:
    job.prepare()
    before = content(job.out)
    valid, test = write(tmp_path, "other", pairs(9)), write(tmp_path, "test", pairs(4))
    with pytest.raises(UsageError) as caught:
        job.but(vocab_size=331, keep=("ratio",), valid=valid, test=(test,)).prepare()
    message = str(caught.value)
    assert re.search(r"vocab_size \w+ 330 .* 331;", message)
    assert re.search(r"keep \w+ none .* ratio;", message)
    assert re.search(r"test \w+ none .* test-test;", message)
    assert re.search(f"text of valid .*{tmp_path}/valid .*{tmp_path}/other", message)
    assert "text of train" not in message
    assert content(job.out) == before


def test_a_damaged_folder_or_something_else_is_left_alone(job: Job) -> None:
    job.out.mkdir(parents=True)
    for name in ("notes.txt", "dataset.json"):
        (job.out / name).write_text("mine")
        with pytest.raises(UsageError, match="choose another"):
            job.prepare()
        assert content(job.out) == {name: b"mine"}
        (job.out / name).unlink()
    job.prepare()
    (job.out / "train-00000.bin").unlink()
    with pytest.raises(UsageError, match=r"train-00000\.bin: missing"):
        job.prepare()


# ------------------------------------------------------------------------------ stopped runs


@pytest.fixture
def long_run(job: Job, tmp_path: Path, small_blocks: None) -> Job:  # noqa: ARG001
    """Two texts with rejects and duplicates of each other, in eleven shards."""
    mixed = [pairs(200)[n] for n in range(30, 110)] + [("same", "same"), ("10 20", "zehn")]
    train = (*job.options.train, write(tmp_path, "m", mixed))
    return job.but(train=train, shard_pairs=10, keep_text=True)


@pytest.mark.parametrize(
    ("shards", "error", "values"),
    [
        *((shards, KeyboardInterrupt(), {}) for shards in (0, 6, 11)),
        (4, OSError(errno.ENOSPC, "full"), {}),
        (3, KeyboardInterrupt(), {"valid": (), "valid_lines": 12}),
        (2, KeyboardInterrupt(), {"duplicates": "near"}),
        (2, KeyboardInterrupt(), {"keep_text": False}),
    ],
)
def test_a_run_that_was_stopped_goes_on_and_ends_in_the_same_bytes(
    long_run: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stderr: Stderr,
    shards: int,
    error: BaseException,
    values: dict[str, object],
) -> None:
    job = long_run.but(**values)
    whole = job.but(out=tmp_path / "whole").prepare()
    count = len(whole.info.train.shards)
    assert count == 11 or values
    stop(job, monkeypatch, shards, error)
    stderr()
    written: list[str] = []
    builder_write = ShardBuilder.write

    def spy(self: ShardBuilder, path: Path, **kwargs: int) -> None:
        written.append(path.name)
        builder_write(self, path, **kwargs)

    monkeypatch.setattr(ShardBuilder, "write", spy)
    job.prepare()
    done = min(shards, count)
    assert f"data.partial: {done} shards with" in stderr()
    assert sum(re.match(r"train-.*\.bin", name) is not None for name in written) == count - done
    assert content(job.out) == content(whole.path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("option", "other text"),
        ("text", "other text"),
        ("train-00002.text", "damaged"),
        ("progress/duplicate-00002.bin", "damaged"),
        ("progress/progress.json", "damaged"),
    ],
)
def test_what_was_left_is_not_used_when_it_is_of_something_else(
    long_run: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stderr: Stderr,
    change: str,
    reason: str,
) -> None:
    stop(long_run, monkeypatch, shards=4)
    if change == "option":
        long_run = long_run.but(max_length=99)
    elif change == "text":
        write(tmp_path, "m", pairs(120)[50:])
    else:
        path = long_run.out.with_name("data.partial") / change
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        path.write_bytes(damaged)
    stderr()
    long_run.prepare()
    said = stderr()
    assert "resuming" not in said
    assert re.search(rf"data\.partial .*{reason}.*; starting afresh", said)
    long_run.but(out=tmp_path / "whole").prepare()
    assert content(long_run.out) == content(tmp_path / "whole")
