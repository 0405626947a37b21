"""Every file is read once: counted, fingerprinted, and refused for what cannot be put right."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.options import PrepareOptions
from nmt.prepare.sources import Sources


def write(folder: Path, name: str, src: bytes, tgt: bytes) -> str:
    (folder / f"{name}.en").write_bytes(src)
    (folder / f"{name}.de").write_bytes(tgt)
    return f"{folder}/{name}"


def survey(
    train: str, valid: str, *tests: str, encoding: str = "utf-8", threads: int = 1
) -> Sources:
    options = PrepareOptions(
        src_lang="en",
        tgt_lang="de",
        train=(train,),
        valid=valid,
        test=tests,
        encoding=encoding,
        workers=threads,
    )
    return Sources.survey(options, Encoding.find(encoding))


@pytest.fixture
def valid(tmp_path: Path) -> str:
    return write(tmp_path, "valid", b"one\n", b"eins\n")


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_counted_and_fingerprinted_as_they_are(
    tmp_path: Path, valid: str, threads: int
) -> None:
    write(tmp_path, "train", b"a\nb\n\nc", b"x\ny\nz\n\n")
    packed = gzip.compress(b"a\nb\n") + gzip.compress(b"\nc")  # the same text, in two parts
    (tmp_path / "train.en").unlink()
    (tmp_path / "train.en.gz").write_bytes(packed)
    (train,) = survey(f"{tmp_path}/train", valid, threads=threads).train
    assert train.lines == 4
    assert train.src.record.name == "train.en.gz"
    assert train.src.record.size == len(packed)
    assert train.src.record.sha256 == hashlib.sha256(packed).hexdigest()
    assert (train.src.text_bytes, train.tgt.text_bytes) == (6, 7)
    assert train.text_bytes == 13


@pytest.mark.parametrize(("src", "tgt"), [(5, 3), (3, 5), (0, 1), (9000, 9001)])
def test_unequal_sides_are_refused_with_both_counts(
    tmp_path: Path, valid: str, src: int, tgt: int
) -> None:
    train = write(tmp_path, "train", b"a\n" * src, b"b\n" * tgt)
    message = rf"train\.en has {src:,} lines and .*train\.de has {tgt:,};"
    with pytest.raises(DataError, match=message):
        survey(train, valid)
    with pytest.raises(DataError, match=message):
        survey(valid, train)


def test_a_few_bad_lines_are_warned_of_with_the_first_named(
    tmp_path: Path, valid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"line %d" % n for n in range(1, 101)]
    lines[41] = lines[60] = b"b\xe9d"
    (train,) = survey(write(tmp_path, "train", b"\n".join(lines), b"x\n" * 100), valid).train
    assert (len(train.src.warnings), len(train.tgt.warnings)) == (1, 0)
    said = capsys.readouterr().err
    assert "train.en line 42 is not valid utf-8 (2 of 100 lines are not)" in said


def test_many_bad_lines_are_another_encoding(tmp_path: Path, valid: str) -> None:
    lines = [b"eins", *[b"K\xe4se"] * 11, *[b"Haus"] * 88]
    train = write(tmp_path, "train", b"x\n" * 100, b"\n".join(lines))
    with pytest.raises(
        DataError,
        match=r"train\.de line 2 is not valid utf-8 \(11 of 100 lines are not\); pass --enc",
    ):
        survey(train, valid)
    assert survey(train, valid, encoding="windows-1252").train[0].lines == 100


@pytest.mark.parametrize(
    ("src", "encoding", "warned"),
    [
        ("Käse\n".encode(), "windows-1252", True),
        ("Käse\n".encode("cp1252"), "windows-1252", False),
        (b"plain\n", "windows-1252", False),
        ("Käse\n".encode(), "utf-8", False),
    ],
)
def test_utf_8_read_as_something_else_is_warned_of(
    tmp_path: Path,
    valid: str,
    capsys: pytest.CaptureFixture[str],
    src: bytes,
    encoding: str,
    warned: bool,
) -> None:
    survey(write(tmp_path, "train", src, b"x\n"), valid, encoding=encoding)
    said = capsys.readouterr().err
    assert ("train.en is valid UTF-8 but is read as cp1252" in said) == warned


def test_test_sets_of_one_name_are_told_apart(tmp_path: Path, valid: str) -> None:
    prefixes = []
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        prefixes.append(write(tmp_path / folder, "t", b"x\n", b"y\n"))
    sources = survey(valid, valid, *prefixes)
    assert list(sources.tests) == ["test-t", "test-t+2", "test-t+3"]
    assert [text.text.prefix for text in sources.tests.values()] == prefixes


@pytest.mark.parametrize("change", ["append", "touch"])
def test_text_that_changes_under_our_hands_is_noticed(
    tmp_path: Path, valid: str, change: str
) -> None:
    (train,) = survey(write(tmp_path, "train", b"a\nb\n", b"x\ny\n"), valid).train
    if change == "append":
        for path in (train.text.src, train.text.tgt):
            path.write_bytes(path.read_bytes() + b"more\n")
    else:
        os.utime(train.text.src, ns=(1, 1))
    with pytest.raises(DataError, match="changed while it was read"):
        list(train.read(Encoding.find("utf-8")))
