"""A folder appears when it is complete, and what stands in its place is never touched."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.prepare.resume import building_folder, check_space, check_target, empty_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "data"
    with building_folder(out) as folder:
        (folder / "file").write_text("whole")
        (folder / "progress" / "half").touch()
        assert names(out.parent) == ["data.partial"]
    assert names(out.parent) == ["data"]
    assert names(out) == ["file"]
    assert (out / "file").read_text() == "whole"


@pytest.mark.parametrize(
    ("error", "raised", "message", "left"),
    [
        (KeyboardInterrupt(), Stopped, "stopped; .*run the same command again", ["data.partial"]),
        (OSError(errno.ENOSPC, "full"), NMTError, "disk is full; .*make room", ["data.partial"]),
        (OSError(errno.EDQUOT, "full"), NMTError, "disk is full; .*make room", ["data.partial"]),
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


def test_a_stop_at_the_very_end_is_told_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nmt.prepare.resume.sync_folder", interrupt)
    with pytest.raises(Stopped, match="stopped"), building_folder(tmp_path / "data"):
        pass


def test_what_another_run_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    out = tmp_path / "data"
    with pytest.raises(UsageError, match="was created by something else"), building_folder(out):
        out.mkdir()
        (out / "file").write_text("of the other")
    assert names(tmp_path) == ["data"]
    assert (out / "file").read_text() == "of the other"


def test_a_folder_of_something_else_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "notes").touch()
    with (
        pytest.raises(UsageError, match=r"data\.partial is in the way"),
        building_folder(tmp_path / "data"),
    ):
        pass
    assert names(tmp_path / "data.partial") == ["notes"]


def test_two_runs_do_not_build_the_same_folder(tmp_path: Path) -> None:
    with building_folder(tmp_path / "data") as folder:
        (folder / "file").touch()
        with (
            pytest.raises(Stopped, match="another process is building"),
            building_folder(tmp_path / "data"),
        ):
            pass
        assert names(folder) == ["file", "progress"]


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    partial = tmp_path / "data.partial"
    (partial / "progress").mkdir(parents=True)
    lock = os.open(partial, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(Stopped), building_folder(tmp_path / "data"):
        pass
    os.close(lock)
    with building_folder(tmp_path / "data"):
        pass
    assert names(tmp_path) == ["data"]


def test_places_where_no_folder_can_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_target(tmp_path / "new" / "data")
    with pytest.raises(UsageError, match="is a file; choose"):
        check_target(tmp_path / "file")
    with pytest.raises(UsageError, match="not a folder that you may write to"):
        check_target(tmp_path / "file" / "data")


def test_a_disk_without_room_is_refused_with_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(10_000_000, 8_000_000, 2_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    out = tmp_path / "new" / "data"
    check_space(out, 2_000_000)
    with pytest.raises(NMTError, match=r"the disk has 2.0 MB free, but about 3.0 MB are needed"):
        check_space(out, 3_000_000)
    # What an earlier run has left there need not be written again.
    left = tmp_path / "new" / "data.partial"
    left.mkdir(parents=True)
    (left / "shard").write_bytes(bytes(1_000_000))
    check_space(out, 3_000_000)
