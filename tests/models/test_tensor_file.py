"""A file of tensors is read whole and unchanged, or refused with its name."""

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt.errors import DataError
from nmt.models.tensor_file import TensorFile, write_tensors

TENSORS = {
    "a/weights": torch.arange(6, dtype=torch.float32).view(2, 3) / 7,
    "b/scalar": torch.tensor(2.5),
    "c/bytes": torch.tensor([1, 2, 255], dtype=torch.uint8),
    "d/half": torch.tensor([0.5, -3.0], dtype=torch.bfloat16),
    "e/whole": torch.tensor([2**40, -1]),
    "f/empty": torch.empty(0, 3),
}
HEADER = {"names": ["é", "ü"], "update": 12, "nested": {"x": 0.1}}


def open_and_verify(path: Path) -> TensorFile:
    file = TensorFile(path, kind="a test file", version=3)
    file.verify()
    return file


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "test.safetensors"
    write_tensors(path, TENSORS, HEADER, kind="a test file", version=3)
    return path


def test_a_file_gives_back_what_was_written(path: Path) -> None:
    file = open_and_verify(path)
    assert file.names == sorted(TENSORS)
    assert file.header == HEADER
    by_safetensors = load_file(path)
    assert by_safetensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert same(file.read(name), tensor) and same(by_safetensors[name], tensor)
    with pytest.raises(DataError, match=r"test\.safetensors: damaged: it lacks 'weights/b'"):
        file.read("weights/b")


def test_the_same_tensors_make_the_same_bytes(path: Path, tmp_path: Path) -> None:
    others = dict(reversed(TENSORS.items()))
    write_tensors(tmp_path / "again", others, HEADER, kind="a test file", version=3)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_views_of_one_storage_are_written_separately(tmp_path: Path) -> None:
    # So the trainer keeps them: all weights are parts of one vector.
    whole = torch.arange(10.0)
    views = {"x": whole[:4].view(2, 2), "y": whole[4:], "z": whole.view(2, 5).T}
    write_tensors(tmp_path / "views", views, {}, kind="k", version=1)
    file = TensorFile(tmp_path / "views", kind="k", version=1)
    file.verify()
    assert all(same(file.read(name), tensor) for name, tensor in views.items())
    assert (tmp_path / "views").stat().st_size < 1_000


# ------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("change", [0x01, 0x20])
def test_every_changed_byte_is_noticed(path: Path, change: int) -> None:
    good = path.read_bytes()
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= change
        path.write_bytes(bad)
        try:
            file = open_and_verify(path)
        except DataError as error:
            assert str(path) in str(error)
            continue
        # Only a byte without meaning may pass, such as white space between header and data.
        assert file.header == HEADER
        assert file.names == sorted(TENSORS)
        assert all(same(file.read(name), tensor) for name, tensor in TENSORS.items()), position


def test_every_truncation_is_noticed(path: Path) -> None:
    good = path.read_bytes()
    for length in range(0, len(good), 3):
        path.write_bytes(good[:length])
        with pytest.raises(DataError, match=r"test\.safetensors: "):
            open_and_verify(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(DataError, match=r"test\.safetensors: "):
        open_and_verify(path)


@pytest.mark.parametrize("length", [0, 100, 10_000])
def test_a_file_that_is_written_over_while_it_is_read_is_noticed(path: Path, length: int) -> None:
    os.utime(path, (1, 1))
    file = open_and_verify(path)
    with path.open("r+b") as same_file:
        same_file.write(bytes(length))
        same_file.truncate(length)
    with pytest.raises(DataError, match=r"test\.safetensors: was changed"):
        file.read("a/weights")


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(path: Path) -> None:
    file = open_and_verify(path)
    write_tensors(path, {}, {}, kind="a test file", version=3)
    assert same(file.read("a/weights"), TENSORS["a/weights"])


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(DataError, match=f"{path}: no"):
            TensorFile(path, kind="k", version=1)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"hello, world, this is text\n" * 10, b"\xff" * 64]
)
def test_other_formats_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"test\.safetensors: (damaged|is text)"):
        open_and_verify(path)


def test_other_kinds_and_versions_are_refused_with_both_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a model file .*a test file"):
        TensorFile(path, kind="a model file", version=3)
    with pytest.raises(DataError, match=r"version 3; .*version 4"):
        TensorFile(path, kind="a test file", version=4)
    save_file({"x": torch.zeros(1)}, tmp_path / "foreign")
    with pytest.raises(DataError, match=r"a test file .*another file"):
        TensorFile(tmp_path / "foreign", kind="a test file", version=3)


@pytest.mark.parametrize(
    ("header", "said"), [("", "JSON"), ("{", "JSON"), ("[1]", "JSON"), ("{}", "checksum")]
)
def test_a_header_without_a_checksum_is_refused(tmp_path: Path, header: str, said: str) -> None:
    metadata = {"kind": "a test file", "version": "3", "header": header}
    save_file({"x": torch.zeros(1)}, tmp_path / "f", metadata)
    with pytest.raises(DataError, match=said):
        open_and_verify(tmp_path / "f")


# --------------------------------------------------------------------- failed writes


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_earlier_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    before = path.read_bytes()

    def fail(written: Path, _needed: int) -> None:
        (working,) = written.parent.glob(f".{written.name}.*")
        (working / written.name).write_bytes(b"half of it")
        raise failure

    monkeypatch.setattr("nmt.models.tensor_file.check_room", fail)
    with pytest.raises(type(failure)):
        write_tensors(path, {}, {}, kind="a test file", version=3)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
