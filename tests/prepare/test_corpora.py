"""Every file is read once: counted, fingerprinted, and refused for what cannot be put right."""

import gzip
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import Stderr
from prepare_job import Job

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.corpora import Sources


def write(folder: Path, name: str, src: bytes, tgt: bytes) -> str:
    (folder / f"{name}.en").write_bytes(src)
    (folder / f"{name}.de").write_bytes(tgt)
    return f"{folder}/{name}"


def survey(train: str, valid: str, *tests: str, **values: Any) -> Sources:
    options = Job.of(Path(), train=(train,), valid=valid, test=tests, **values).options
    return Sources.survey(options, Encoding.find(options.encoding))


@pytest.fixture
def valid(tmp_path: Path) -> str:
    return write(tmp_path, "valid", b"one\n", b"eins\n")


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_counted_and_fingerprinted(tmp_path: Path, valid: str, threads: int) -> None:
    packed = gzip.compress(b"a\nb\n") + gzip.compress(b"\nc")  # one text, in two parts
    (tmp_path / "train.en.gz").write_bytes(packed)
    (tmp_path / "train.de").write_bytes(b"x\ny\nz\n\n")
    (train,) = survey(f"{tmp_path}/train", valid, workers=threads).train
    assert train.lines == 4
    record = train.records[0]
    assert record.name == "train.en.gz"
    assert record.size == len(packed)
    assert record.sha256 == hashlib.sha256(packed).hexdigest()
    assert ([side.text_bytes for side in train.surveys], train.text_bytes) == ([6, 7], 13)


@pytest.mark.parametrize(("src", "tgt"), [(5, 3), (3, 5), (0, 1), (9000, 9001)])
def test_unequal_sides_are_told_with_counts(tmp_path: Path, valid: str, src: int, tgt: int) -> None:
    train = write(tmp_path, "train", b"a\n" * src, b"b\n" * tgt)
    message = rf"train\.en has {src:,} lines and .*train\.de has {tgt:,};"
    with pytest.raises(DataError, match=message):
        survey(train, valid)
    with pytest.raises(DataError, match=message):
        survey(valid, train)


@pytest.mark.parametrize(
    ("src", "encoding", "warning"),
    [
        (b"plain\n" * 41 + b"b\xe9d\n" + b"plain\n" * 57 + b"b\xe9d", "utf-8",
         "train.en line 42 is not valid utf-8 (2 of 100 "),
        ("Käse\n".encode() * 100, "cp1252", "train.en is valid UTF-8"),
        ("Käse\n".encode("cp1252") * 100, "cp1252", None),
        (b"plain\n" * 100, "cp1252", None),
        ("Käse\n".encode() * 100, "utf-8", None),
    ],
)  # fmt: skip
def test_what_is_odd_about_the_encoding_is_warned_of(
    tmp_path: Path, valid: str, stderr: Stderr, src: bytes, encoding: str, warning: str | None
) -> None:
    (train,) = survey(write(tmp_path, "train", src, b"x\n" * 100), valid, encoding=encoding).train
    said = stderr()
    assert [len(side.warnings) for side in train.surveys] == [int(warning is not None), 0]
    assert warning in said if warning else "warning" not in said


def test_many_bad_lines_are_another_encoding(tmp_path: Path, valid: str) -> None:
    lines = [b"eins", *[b"K\xe4se"] * 11, *[b"Haus"] * 88]
    train = write(tmp_path, "train", b"x\n" * 100, b"\n".join(lines))
    with pytest.raises(DataError, match=r"train\.de line 2 .*11 of 100 .*--enc"):
        survey(train, valid)
    assert survey(train, valid, encoding="windows-1252").train[0].lines == 100


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        (b"more\n", b"more\n", "changed"),
        (b"", b"", "changed"),  # but its time
        (b"", b"more\n", r"train\.en .*line 2"),
        (b"more\n", b"", r"train\.de .*line 2"),
    ],
)
def test_text_that_changes_under_our_hands_is_noticed(
    tmp_path: Path, valid: str, src: bytes, tgt: bytes, message: str
) -> None:
    (train,) = survey(write(tmp_path, "train", b"a\nb\n", b"x\ny\n"), valid).train
    for path, more in zip(train.reader.files, (src, tgt), strict=True):
        with path.open("ab") as file:
            file.write(more)
    os.utime(train.reader.files[0], ns=(1, 1))
    with pytest.raises(DataError, match=message):
        list(train.read())
