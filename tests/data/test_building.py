"""A folder appears when it is complete, and what stands in its place is never touched."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from nmt.data.building import building_folder, check_target
from nmt.errors import NMTError, UsageError

NO_PROCESS = 2**22 + 5  # above the largest process id of Linux


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "data"
    with building_folder(out) as folder:
        (folder / "file").write_text("whole")
        assert names(out.parent) == [f"data.partial-{os.getpid()}"]
    assert names(out.parent) == ["data"]
    assert (out / "file").read_text() == "whole"


def test_an_empty_folder_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with building_folder(tmp_path / "data") as folder:
        (folder / "file").touch()
    assert names(tmp_path / "data") == ["file"]


def test_what_a_predecessor_of_the_same_number_has_left_is_removed(tmp_path: Path) -> None:
    """In a container, a process often has the number that the killed one had."""
    left = tmp_path / f"data.partial-{os.getpid()}"
    left.mkdir()
    (left / "half").touch()
    with building_folder(tmp_path / "data") as folder:
        (folder / "file").touch()
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["file"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), OSError("odd")])
def test_an_error_leaves_nothing_and_comes_through(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), building_folder(tmp_path / "data") as folder:
        (folder / "file").touch()
        raise error
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_in_plain_words(tmp_path: Path, code: int) -> None:
    with pytest.raises(NMTError, match="the disk is full"), building_folder(tmp_path / "data"):
        raise OSError(code, os.strerror(code))
    assert names(tmp_path) == []


def test_what_another_run_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    out = tmp_path / "data"
    with pytest.raises(UsageError, match="something else was put there"), building_folder(out):
        out.mkdir()
        (out / "file").write_text("of the other")
    assert names(tmp_path) == ["data"]
    assert (out / "file").read_text() == "of the other"


def test_what_a_killed_run_has_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"data.partial-{NO_PROCESS}"
    left.mkdir()
    (left / "file").touch()
    with building_folder(tmp_path / "data"):
        assert not left.exists()


@pytest.mark.parametrize(
    "name", ["data.partial-1", f"data2.partial-{NO_PROCESS}", "data.partial-notes", "data.partial-"]
)
def test_living_neighbours_and_other_names_are_not_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with building_folder(tmp_path / "data"):
        pass
    assert names(tmp_path) == ["data", name]


def test_what_another_machine_still_builds_is_not_removed(tmp_path: Path) -> None:
    # Its process is not one of ours, but it holds the lock.
    building = tmp_path / f"data.partial-{NO_PROCESS}"
    building.mkdir()
    lock = os.open(building, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with building_folder(tmp_path / "data"):
            assert building.exists()
    finally:
        os.close(lock)


def test_a_folder_holds_its_lock_while_it_is_built(tmp_path: Path) -> None:
    with building_folder(tmp_path / "data") as folder:
        other = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_places_where_no_folder_can_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_target(tmp_path / "new" / "data")
    with pytest.raises(UsageError, match="this is a file"):
        check_target(tmp_path / "file")
    with pytest.raises(UsageError, match="not a folder that you may write to"):
        check_target(tmp_path / "file" / "data")
