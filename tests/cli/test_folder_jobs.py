"""Jobs of many files: which are taken, what one that fails does to the others, what is refused."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

from nmt.errors import Stopped, UsageError
from nmt.translate.files import find_files
from nmt.translate.job import Job

Nmt = Callable[..., Any]

QUICK = ["--threads", "1", "--workers", "1", "--beam-size", "1", "--max-extra-tokens", "3"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three texts."""
    path = tmp_path / "in"
    path.mkdir()
    for name in ("a", "b", "c"):
        (path / name).write_text(f"the {name} cat\n")
    return path


@pytest.fixture
def job(nmt: Nmt, model_file: Path, folder: Path, tmp_path: Path) -> Callable[..., Any]:
    """Translate that folder to `out`."""

    def run(*words: str | Path) -> Any:
        files = ("--input", folder, "--output", tmp_path / "out")
        return nmt("translate", model_file, *files, *QUICK, *words)

    return run


def translated(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[None]:
    """Another job is at work on `out/b`."""
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".b.journal").open("ab") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        yield


# --------------------------------------------------------------------------- finding the files


def test_the_work_of_finding_files_grows_with_their_number(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        (folder / str(number)).touch()
    name = PurePath.name.fget  # type: ignore[attr-defined]  # mypy has it as an attribute
    asked: list[PurePath] = []

    def count(path: PurePath) -> str:
        asked.append(path)
        return str(name(path))

    monkeypatch.setattr(PurePath, "name", property(count))
    assert len(find_files([str(folder)], str(tmp_path / "out"))) == 303
    assert len(asked) < 30 * 303


def test_a_link_to_nothing_is_told_of(job: Nmt, folder: Path, tmp_path: Path) -> None:
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "round").symlink_to(folder / "round")
    answer = job()
    assert answer.status == 1
    assert "gone: No such file" in answer.stderr
    assert "round: " in answer.stderr
    assert translated(tmp_path / "out") == ["a", "b", "c"]


REPLACED = "the output would replace"


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        (["in/a"], "in/a", REPLACED),
        (["in/a"], "model", REPLACED),
        ([], "model", REPLACED),  # from a pipe
        (["in"], "in", REPLACED),
        (["in"], "link", REPLACED),
        (["in"], "in/../in", REPLACED),
        (["in/*"], "in", REPLACED),
        (["in"], "symbolic", REPLACED),  # through a link to one of the inputs
        (["in"], "hard", REPLACED),
        (["in/a", "in/b"], None, "several inputs need a folder to write to"),
        (["in/a", "other/a"], "out", "two files are called a"),
        (["in/a"], "no/", "no/: no such folder"),
        (["in"], "no/out", "no: no such folder"),
        ([], "in", "is a folder; name a file for the translation of a pipe"),
    ],
)
def test_outputs_that_do_not_fit_are_refused_before_any_work(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inputs: list[str],
    output: str | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("other", "symbolic", "hard"):
        Path(name).mkdir()
    for name in ("model", "other/a"):
        Path(name).touch()
    Path("link").symlink_to("in")
    Path("symbolic/c").symlink_to(folder / "a")
    Path("hard/c").hardlink_to(folder / "a")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=message):
        find_files(inputs, output, [Path("model")])
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_does_not_replace_the_model(
    nmt: Nmt, model_file: Path, folder: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copy(model_file, tmp_path / "model"))
    answer = nmt("translate", model, "--input", folder / "a", "--output", model, *QUICK)
    assert (answer.status, model.read_bytes()) == (2, model_file.read_bytes())
    (line,) = answer.stderr.splitlines()
    assert REPLACED in line


# ------------------------------------------------------------------------------ one that fails


@pytest.mark.usefixtures("locked")
def test_a_file_that_another_job_is_at_work_on_is_passed_over(job: Nmt, tmp_path: Path) -> None:
    answer = job()
    assert answer.status == 75
    assert "out/b: another job is working on it; run the same command again later" in answer.stderr
    assert translated(tmp_path / "out") == ["a", "c"]


@pytest.mark.usefixtures("locked")
def test_a_file_that_fails_counts_for_more_than_one_that_is_held_off(
    job: Nmt, folder: Path, tmp_path: Path
) -> None:
    (folder / "a").rename(folder / "a.gz")
    answer = job()
    assert answer.status == 1
    assert translated(tmp_path / "out") == ["c"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "I/O error")]
)
def test_an_error_of_the_system_ends_one_file_and_not_the_others(
    job: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    sync = os.fsync

    def fail_for_b(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == ".b.partial":
            raise error
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_b)
    answer = job()
    assert answer.status == 1
    assert "out/b: " in answer.stderr
    assert translated(tmp_path / "out") == ["a", "c"]


def test_the_deadline_ends_all(job: Nmt, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise Stopped("--deadline 06:30 has come")

    monkeypatch.setattr(Job, "translate_file", stop)
    answer = job()
    assert (answer.status, answer.stderr.count("has come")) == (75, 1)


@pytest.mark.parametrize("damage", ["damaged", "device"])
def test_what_no_file_can_be_translated_without_is_said_once(
    nmt: Nmt, model_file: Path, folder: Path, tmp_path: Path, damage: str
) -> None:
    data = bytearray(model_file.read_bytes())
    if damage == "damaged":
        data[-1] ^= 1
    (tmp_path / "model").write_bytes(data)
    words = ("--device", "gpu") if damage == "device" else ()
    files = ("--input", folder, "--output", tmp_path / "out")
    answer = nmt("translate", tmp_path / "model", *files, *QUICK, *words)
    assert answer.status == (2 if damage == "device" else 1)
    assert answer.stderr.count("\n") == 1


# ------------------------------------------------------------------------------- what is no text


PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
NOT_TEXT = {
    "model": (None, "safetensors"),
    "picture.png": (PICTURE, "a PNG picture"),
    "shard.bin": (bytes(range(256)) * 20, "does not look like utf-8 text"),
    "numbers": (b"\0\0\x80\x3f" * 100, "does not look like utf-8 text"),
    "packed.gz": (gzip.compress(PICTURE), "a PNG picture"),
    "wide": ("the cat\n".encode("utf-16-le") * 20, "does not look like utf-8 text"),
    "koi8": ("Здравствуй, мир\n".encode("koi8-r") * 20, "pass --encoding if it is text"),
}


def test_what_is_no_text_is_named_and_passed_over(
    job: Nmt, model_file: Path, folder: Path, tmp_path: Path
) -> None:
    for name, (content, _) in NOT_TEXT.items():
        (folder / name).write_bytes(content or model_file.read_bytes())
    answer = job()
    assert answer.status == 1
    for name, (_, message) in NOT_TEXT.items():
        assert any(
            f"in/{name}: " in line and message in line for line in answer.stderr.splitlines()
        ), answer.stderr
    assert translated(tmp_path / "out") == ["a", "b", "c"]


def test_a_named_file_that_is_no_text_is_refused(
    nmt: Nmt, model_file: Path, tmp_path: Path
) -> None:
    for output in ((), ("--output", tmp_path / "out")):
        answer = nmt("translate", model_file, "--input", model_file, *output, *QUICK)
        assert (answer.status, answer.stdout) == (1, "")
        assert "not text but safetensors" in answer.stderr
        assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"a \0 cat\n" * 50, "utf-8"),
        (b"\0\n\xff\n\xfe", "utf-8"),
        (bytes(30), "utf-8"),
        ("Všichni lidé rodí se svobodní a sobě rovní\n".encode("iso8859-2") * 20, "utf-8"),
        ("Здравствуй, мир\n".encode("koi8-r") * 20, "koi8-r"),
        ("the cat\n".encode("utf-16"), "utf-16"),
    ],
)
def test_text_with_odd_bytes_is_text(
    nmt: Nmt, model_file: Path, tmp_path: Path, content: bytes, encoding: str
) -> None:
    (tmp_path / "in").write_bytes(content)
    words = ("--encoding", encoding, "--max-tokens", "1", *QUICK)
    answer = nmt("translate", model_file, "--input", tmp_path / "in", *words)
    assert answer.status == 0
    assert answer.stdout.count("\n") == content.decode(encoding, "replace").count("\n")
