"""Files appear whole under their names, and other names of them are respected."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

from nmt.errors import DataError, HeldOff
from nmt.jobs.journal import Journal
from nmt.prepare.resume import building_folder
from nmt.runs.run_folder import RunFolder
from nmt.system import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    with files.atomic_writer(tmp_path / "file") as file:
        file.write(b"half")
        assert "file" not in names(tmp_path)
    assert names(tmp_path) == ["file"]


def test_an_error_leaves_the_earlier_file_and_is_given_its_name(tmp_path: Path) -> None:
    files.write_text(tmp_path / "file", "earlier")
    with (
        pytest.raises(OSError, match="full") as caught,
        files.atomic_writer(tmp_path / "file") as file,
    ):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "full")
    assert caught.value.filename == str(tmp_path / "file")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "earlier"


def test_what_a_killed_process_left_is_removed_by_the_next_and_no_more(tmp_path: Path) -> None:
    killed = tmp_path / ".file.of_a_run.partial"
    other = tmp_path / ".file.other.of_a_run.partial"
    for folder in (killed, other):
        folder.mkdir()
        (folder / "file").write_text("half")
    with files.atomic_writer(tmp_path / "file"):  # another process that is at work
        under_way = set(names(tmp_path))
        assert killed.name not in under_way
        files.write_text(tmp_path / "file", "whole")
        assert set(names(tmp_path)) == under_way | {"file"}
    assert names(tmp_path) == [other.name, "file"]


def test_nobody_else_can_write_where_a_file_is_made(tmp_path: Path) -> None:
    with files.atomic_writer(tmp_path / "file"):
        (working,) = tmp_path.iterdir()
        assert working.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_behind_a_symbolic_link_the_file_itself_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("earlier")
    (tmp_path / "link").symlink_to("real")
    files.write_text(tmp_path / "link", "now")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "now"


def test_others_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("earlier")
    (tmp_path / "link").symlink_to("mine")
    status = (tmp_path / "link").lstat()
    of_another = os.stat_result((*status[:4], status.st_uid + 12_345, *status[5:]))
    monkeypatch.setattr(Path, "lstat", lambda _: of_another)
    with pytest.raises(OSError, match="link"):
        files.write_text(tmp_path / "link", "now")
    assert (tmp_path / "mine").read_text() == "earlier"


def test_linking_leaves_the_other_names_of_what_was_there(tmp_path: Path) -> None:
    for source in ("old", "new", "new"):  # linking twice leaves no temporary file
        (tmp_path / source).write_text(source)
        files.link_or_copy(tmp_path / source, tmp_path / "name")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old": "old",
        "new": "new",
        "name": "new",
    }


def test_a_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert files.sha256_file(tmp_path / "file") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_a_file_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_text(path, "content")
    with path.open("ab") as first, path.open("ab") as second:
        files.lock(first.fileno(), path, "busy")
        with pytest.raises(HeldOff, match="busy"):
            files.lock(second.fileno(), path, "busy")
        first.close()
        files.lock(second.fileno(), path, "busy")
    assert path.read_text() == "content"
    assert names(tmp_path) == ["file"]


def train_in(folder: Path) -> None:
    run = RunFolder(folder)
    run.create()
    run.lock()


def prepare_in(folder: Path) -> None:
    with building_folder(folder / "data"):
        pass


def translate_in(folder: Path) -> None:
    for name in ("out", "other"):
        with Journal(folder / name):
            pass


@pytest.mark.parametrize("work", [train_in, prepare_in, translate_in])
def test_work_on_a_file_system_without_locks_goes_on_after_a_warning(
    work: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(_descriptor: int, **_: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock, "lock_descriptor", refuse)
    work(tmp_path)
    assert capsys.readouterr().err.count("has no locks") == 1


def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(DataError, match=f"{path}: not a file"):
            files.open_file(path)


@pytest.mark.parametrize("length", [0, 5, 30])
def test_a_file_of_another_length_is_not_read_on(tmp_path: Path, length: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(20)))
    file = files.UnchangedFile(path)
    assert file.read(3, 4) == bytes(range(3, 7))
    os.truncate(path, length)
    with pytest.raises(DataError, match=f"{path}: was changed"):
        file.read(3, 4)
