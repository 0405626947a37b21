"""Files appear whole under their names, and other names of them are respected."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nmt.files import atomic_writer, link_or_copy, sha256_file, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    with atomic_writer(tmp_path / "file") as file:
        file.write(b"half")
        assert "file" not in names(tmp_path)
    assert names(tmp_path) == ["file"]


def test_an_error_leaves_the_earlier_file_and_is_given_its_name(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "earlier")
    with pytest.raises(OSError, match="full") as caught, atomic_writer(tmp_path / "file") as file:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "full")
    assert caught.value.filename == str(tmp_path / "file")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "earlier"


def test_behind_a_symbolic_link_the_file_itself_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("earlier")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "now")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "now"


def test_linking_leaves_the_other_names_of_what_was_there(tmp_path: Path) -> None:
    for source in ("old", "new", "new"):  # linking twice leaves no temporary file
        (tmp_path / source).write_text(source)
        link_or_copy(tmp_path / source, tmp_path / "name")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old": "old",
        "new": "new",
        "name": "new",
    }


def test_a_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert sha256_file(tmp_path / "file") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
