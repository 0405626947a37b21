"""Jobs of many files: which are taken, what one that fails does to the others, what is refused."""

import errno
import fcntl
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest
from command_line import QUICK, Answer, Nmt, Stderr

from nmt.errors import UsageError
from nmt.jobs.file_pairs import find_files
from nmt.jobs.job import Job
from nmt.jobs.parallel import Translators
from nmt.translate.translator import Translator

Translate = Callable[..., Answer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three texts."""
    path = tmp_path / "in"
    path.mkdir()
    for name in ("a", "b", "c"):
        (path / name).write_text(f"the {name} cat\n")
    return path


@pytest.fixture
def job(translate: Nmt, folder: Path, tmp_path: Path) -> Translate:
    """Translate that folder to `out`."""

    def run(*words: str | Path) -> Answer:
        return translate("--input", folder, "--output", tmp_path / "out", *words)

    return run


def translated(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


# --------------------------------------------------------------------------- finding the files


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("inputs", [["in"], ["in/*"], ["in/a", "in/b", "in/c"]])
def test_a_folder_a_glob_and_names_are_the_same_files(folder: Path, inputs: list[str]) -> None:
    (folder / ".hidden").touch()
    expected = [(Path("in", name), Path("out", name)) for name in ("a", "b", "c")]
    assert find_files(inputs, "out") == expected
    assert find_files(["in/a"], "out") == expected[:1]  # into the folder that is there now


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


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        ("in/a", "in/a", "would replace"),
        ("in/a", "model", "would replace"),
        ("", "model", "would replace"),  # from a pipe
        ("in", "in", "would replace"),
        ("in", "link", "would replace"),
        ("in", "in/../in", "would replace"),
        ("in/*", "in", "would replace"),
        ("in", "symbolic", "would replace"),  # through a link to one of the inputs
        ("in", "hard", "would replace"),
        ("in/a in/b", "", "several inputs"),
        ("in/a other/a", "out", "two files"),
        ("in/a pipe", "out", "pipe: with several"),
        ("in/a", "no/", "no/: "),
        ("in", "no/out", "no: "),
        ("", "in", "is a folder"),
    ],
)
def test_outputs_that_do_not_fit_are_refused_before_any_work(
    here: Path, folder: Path, inputs: str, output: str, message: str
) -> None:
    for name in ("other", "symbolic", "hard"):
        Path(name).mkdir()
    for name in ("model", "other/a"):
        Path(name).touch()
    os.mkfifo("pipe")
    Path("link").symlink_to("in")
    Path("symbolic/c").symlink_to(folder / "a")
    Path("hard/c").hardlink_to(folder / "a")
    before = sorted(here.rglob("*"))
    with pytest.raises(UsageError, match=message):
        find_files(inputs.split(), output or None, [Path("model")])
    assert sorted(here.rglob("*")) == before


@pytest.mark.usefixtures("folder")
def test_files_of_inner_folders_keep_their_places(here: Path, stderr: Stderr) -> None:
    for name in ("season1/a", "season1/deep/b", ".hidden/x", "run/model", "out/a"):
        Path("in", name).parent.mkdir(parents=True, exist_ok=True)
        Path("in", name).touch()
    Path("in/link").symlink_to(here)
    places = ["a", "b", "c", "season1/a", "season1/deep/b"]
    expected = [(Path("in", place), Path("in/out", place)) for place in places]
    assert find_files(["in"], "in/out", [Path("in/run")]) == expected
    assert "in/link: is a link to a folder" in stderr()
    Path("in/link").unlink()
    assert find_files(["in/**"], "in/out", [Path("in/run")]) == expected
    assert find_files(["in/*/a"], "in/out") == [(Path("in/season1/a"), Path("in/out/season1/a"))]
    assert not stderr()
    assert find_files(["in/*"], "in/out") == expected[:3]
    assert "3 folders are not looked into, such as in/out; use in/**" in stderr()


# ------------------------------------------------------------------------ what somebody corrected


def test_what_somebody_corrected_stays(job: Translate, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "c").write_text("written by hand\n")
    os.utime(folder / "c", (1, 1))
    assert job().summary["edited"] == 1
    corrected = (out / "a").read_text() + "corrected\n"
    (out / "a").write_text(corrected)
    (out / "b").unlink()
    os.utime(folder / "a", (1, 1))
    for options in ((), ("--beam-size", "2")):  # with others, all is translated again
        answer = job(*options)
        assert (answer.status, answer.summary["edited"]) == (0, 2)
        assert ((out / "a").read_text(), (out / "b").exists()) == (corrected, True)
        assert (out / "c").read_text() == "written by hand\n"
        assert "warning" not in answer.stderr
    os.utime(folder / "a")
    os.utime(out / "a", (1, 1))
    assert f"out/a: stays, because somebody else changed or wrote it; but {folder}/a is" in (
        job().stderr
    )
    answer = job("--overwrite")
    assert answer.summary["edited"] == 0
    assert "corrected" not in (out / "a").read_text()
    assert "by hand" not in (out / "c").read_text()


def test_a_single_output_that_was_corrected_stays_and_another_file_is_replaced(
    translate: Nmt, folder: Path, tmp_path: Path
) -> None:
    words = ("--input", folder / "a", "--output", tmp_path / "out")
    (tmp_path / "out").write_text("another file\n")
    assert translate(*words).summary["edited"] == 0
    (tmp_path / "out").write_text("corrected\n")
    assert translate(*words).summary["edited"] == 1
    assert (tmp_path / "out").read_text() == "corrected\n"


def test_a_journal_beside_the_output_goes_into_the_folder(job: Translate, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert job().status == 0
    (out / ".nmt-journals" / "a.journal").rename(out / ".a.journal")
    answer = job()
    assert (answer.summary["edited"], f"{out}/a: already translated" in answer.stderr) == (0, True)


# ------------------------------------------------------------------------------ one that fails


def test_unreadable_files_do_not_stop_others(job: Translate, folder: Path, tmp_path: Path) -> None:
    (folder / "cut.gz").write_bytes(gzip.compress(b"the cat\n")[:-5])
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "round").symlink_to(folder / "round")
    answer = job("--input", tmp_path / "missing")
    assert (answer.status, answer.stdout) == (1, "")
    for message in ("missing: No such", "cut.gz: cut short", "gone: No such", "round: "):
        assert message in answer.stderr
    assert translated(tmp_path / "out") == ["a", "b", "c"]
    assert (answer.summary["lines_in"], answer.summary["failed"]) == (3, 0)
    assert answer.summary["failed_files"] == 4


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are not waited for."""
    monkeypatch.setattr("nmt.system.files._LOCK_SECONDS", 0)


@pytest.mark.usefixtures("impatient")
def test_a_file_of_another_job_is_passed_over(job: Translate, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".b.journal").open("ab") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        answer = job()
        assert answer.status == 75
        assert "out/b: another job" in answer.stderr
        assert translated(tmp_path / "out") == ["a", "c"]
        # A file that fails counts for more than one that is held off.
        (folder / "a").rename(folder / "a.gz")
        assert job().status == 1


@pytest.mark.usefixtures("impatient")
def test_what_other_jobs_held_is_looked_at_again(
    job: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    other = (tmp_path / "out" / ".a.journal").open("ab")
    fcntl.flock(other, fcntl.LOCK_EX)
    translate_file = Job.translate_file

    def translate_and_let_go(self: Job, source: Path, output: Path) -> Any:
        if source.name == "c":
            other.close()  # as a job that was killed, or is done
        return translate_file(self, source, output)

    monkeypatch.setattr(Job, "translate_file", translate_and_let_go)
    answer = job()
    assert (answer.status, answer.summary["lines_in"]) == (0, 3)
    assert "another job" not in answer.stderr
    assert translated(tmp_path / "out") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "Input/out")]
)
def test_an_error_of_the_system_ends_one_file_and_leaves_nothing_of_it(
    job: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    sync = os.fsync

    def fail_for_b(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == ".b.partial":
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_b)
    answer = job()
    assert answer.status == 1
    assert f"{tmp_path}/out/b: {message}" in answer.stderr
    left = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert left == [".nmt-journals", "a", "a.journal", "c", "c.journal"]


def test_any_error_ends_one_file_and_is_told(
    job: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translate = Translator.translate

    def fail_for_b(self: Translator, lines: list[str], *more: Any, **options: Any) -> Any:
        if lines == ["the b cat"]:
            raise ZeroDivisionError("\x1b[2J")
        return translate(self, lines, *more, **options)

    monkeypatch.setattr(Translator, "translate", fail_for_b)
    answer = job("--workers", "2")
    assert answer.status == 1
    assert translated(tmp_path / "out") == ["a", "c"]
    assert "ZeroDivisionError: \\x1b[2J\n" in answer.stderr  # with its traceback
    (line,) = (line for line in answer.stderr.splitlines() if line.startswith("nmt: error: "))
    assert "in/b: " in line


def test_a_model_that_is_replaced_as_the_job_starts_ends_it(
    nmt: Nmt, model_file: Path, other_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, start = tmp_path / "model", Translators.start
    shutil.copy(model_file, model)
    (tmp_path / "in").write_text("the cat\n")

    def start_and_replace(*arguments: Any) -> Translators:
        shutil.copy(other_model, tmp_path / "new")
        (tmp_path / "new").rename(model)
        return start(*arguments)

    monkeypatch.setattr(Translators, "start", start_and_replace)
    words = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert str(model) in nmt("translate", model, *QUICK, *words).refusal(1)
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------- what is no text


PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
NOT_TEXT = {
    "picture.png": (PICTURE, "a PNG picture"),
    "shard.bin": (bytes(range(256)) * 20, "like utf-8 text"),
    "numbers": (b"\0\0\x80\x3f" * 100, "not utf-8 text"),
    "packed.gz": (gzip.compress(PICTURE, mtime=0), "a PNG picture"),
    "wide": ("the cat\n".encode("utf-16-le") * 20, "--encoding utf-16"),
    "only nul": (bytes(30), "not utf-8 text"),
    "koi8": ("Здравствуй, мир\n".encode("koi8-r") * 20, "--encoding"),
}
ODD_TEXT = {
    "nul": b"a \0 cat\n" * 50,
    "short": b"\0\n\xff\n\xfe",
    "latin 2": "Všichni lidé rodí se svobodní a sobě rovní\n".encode("iso8859-2") * 20,
}


def test_what_is_no_text_is_named_and_skipped(job: Translate, folder: Path, tmp_path: Path) -> None:
    contents = {name: content for name, (content, _) in NOT_TEXT.items()} | ODD_TEXT
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    answer = job("--max-tokens", "1")
    assert answer.status == 1
    complaints = [line for line in answer.stderr.splitlines() if "error" in line]
    for line, (name, (_, message)) in zip(complaints, sorted(NOT_TEXT.items()), strict=True):
        assert f"in/{name}: " in line
        assert message in line
    assert translated(tmp_path / "out") == sorted(["a", "b", "c", *ODD_TEXT])
    for name, content in ODD_TEXT.items():
        assert (tmp_path / "out" / name).read_bytes().count(b"\n") == content.count(b"\n")
