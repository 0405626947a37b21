"""A job that was killed goes on where it was, and only where that is what it seems."""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt.data import compressed
from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import NMTError, Stopped
from nmt.jobs.counts import Counts
from nmt.jobs.journal import Journal

LINES = [f"line {number}\n".encode() for number in range(8)]
TEXT = b"".join(LINES)
JOB: dict[str, Any] = {"model": "abc", "options": {"beam_size": 4}}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.de"


def chunks(text: bytes = TEXT) -> Iterator[bytes]:
    """The text in pieces that end where no line ends."""
    return (text[first : first + 5] for first in range(0, len(text), 5))


def work(
    output: Path, *, lines: int = 8, text: bytes = TEXT, job: dict[str, Any] = JOB
) -> list[bytes] | None:
    """Do a job up to some line; return the lines that were done, None if none had to be.

    Lines are translated to capitals.
    """
    with Journal(output) as journal:
        rest = journal.begin(job, lambda: chunks(text))
        if rest is None:
            return None
        before = journal.progress.counts.lines
        left = b"".join(rest).splitlines(keepends=True)[: lines - before]
        for number, line in enumerate(left, before + 1):
            journal.add(line, line.upper(), Counts(lines=number))
        if lines == 8:
            journal.finish()
            assert content(output) == text.upper()
        return left


def content(output: Path) -> bytes:
    return b"".join(read_chunks(output, Encoding.find("utf-8")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("done", [0, 1, 4, 7])
def test_a_job_goes_on_where_it_was_stopped(output: Path, done: int) -> None:
    output.write_text("an earlier one")
    work(output, lines=done)
    assert output.read_text() == "an earlier one"
    left = [".out.de.journal", ".out.de.partial", "out.de"] if done else ["out.de"]
    assert names(output.parent) == left
    assert work(output) == LINES[done:]
    assert names(output.parent) == [".out.de.journal", "out.de"]


def test_a_job_that_was_stopped_replaces_what_was_there_when_it_began(output: Path) -> None:
    work(output)
    work(output, lines=4, job=JOB | {"model": "xyz"})
    with Journal(output) as journal:
        assert not journal.is_edited()
    output.write_text("corrected")
    with Journal(output) as journal:
        assert journal.is_edited()


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("before", [None, b"an earlier one"])
def test_what_was_changed_while_the_job_ran_is_left_alone(
    tmp_path: Path, suffix: str, before: bytes | None
) -> None:
    output = tmp_path / f"out{suffix}"
    if before is not None:
        output.write_bytes(before)
    with Journal(output) as journal:
        assert journal.begin(JOB, chunks) is not None
        journal.add(TEXT, TEXT.upper(), Counts(lines=8))
        output.write_bytes(b"corrected")
        with pytest.raises(NMTError, match=re.escape(f"{output}: ")):
            journal.finish()
    assert output.read_bytes() == b"corrected"
    with Journal(output) as journal:
        assert journal.is_edited()
    assert work(output) is None  # as with --overwrite: nothing is left to do but the renaming
    assert content(output) == TEXT.upper()


def test_the_kernel_is_noted_with_the_job_and_forgotten_with_it(output: Path) -> None:
    with Journal(output) as journal:
        assert journal.begin(JOB, chunks) is not None
        assert journal.kernel is None
        journal.kernel = "onednn"
        journal.add(LINES[0], LINES[0].upper(), Counts(lines=1))
    for job, kernel in ((JOB, "onednn"), (JOB | {"model": "xyz"}, None)):
        with Journal(output) as journal:
            assert journal.begin(job, chunks) is not None
            assert journal.kernel == kernel
    with Journal(output) as journal:
        journal.begin(JOB, chunks)
        assert b"".join(journal.begin_again(chunks)) == TEXT
        assert (journal.kernel, journal.progress.input_bytes) == (None, 0)
        journal.add(TEXT, TEXT.upper(), Counts(lines=8))
        journal.finish()
    assert output.read_bytes() == TEXT.upper()
    assert work(output) is None


def beside(output: Path, kind: str) -> Path:
    """The job's partial output or journal."""
    return output.with_name(f".{output.name}.{kind}")


def test_what_was_not_noted_is_done_again(output: Path) -> None:
    work(output, lines=3)
    with beside(output, "partial").open("ab") as file:
        file.write(b"LINE 3 WITHOUT A NOTE\nLINE")
    with beside(output, "journal").open("ab") as file:
        file.write(b'{"input_bytes": 40, "inp')
    assert work(output, lines=4) == LINES[3:4]
    assert all(json.loads(line) for line in beside(output, "journal").read_bytes().splitlines())
    assert work(output) == LINES[4:]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("partial", b"LINE 2", b"LINE 3"),
        ("partial", b"LINE 4\n", b"LINE 4"),
        ("partial", TEXT.upper()[:35], None),  # gone
        ("journal", b'"input_bytes": 35', b'"input_bytes": 28'),
    ],
)
def test_what_does_not_match_its_note_is_not_believed(
    output: Path, kind: str, old: bytes, new: bytes | None
) -> None:
    work(output, lines=5)
    changed = beside(output, kind)
    content = changed.read_bytes()
    assert old in content
    changed.unlink()
    if new is not None:
        changed.write_bytes(content.replace(old, new))
    assert work(output) == LINES


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (0, b"{", b"[" * 100_000),
        (2, b'"lines": 2', b'"lines": 1'),  # which counts those before the next one
        (4, b'"input_bytes": 28', b'"input_bytes": ' + b"9" * 5000),
        (5, b"}\n", b"}\0\n"),
    ],
)
def test_a_damaged_journal_begins_again(output: Path, line: int, old: bytes, new: bytes) -> None:
    work(output, lines=5)
    journal = beside(output, "journal")
    recorded = journal.read_bytes().splitlines(keepends=True)
    assert old in recorded[line]
    recorded[line] = recorded[line].replace(old, new, 1)
    journal.write_bytes(b"".join(recorded))
    assert work(output) == LINES


def test_another_input_or_job_begins_again(output: Path) -> None:
    for changes in ({"text": TEXT.replace(b"line 1", b"LINE 1")}, {"job": JOB | {"model": "xyz"}}):
        work(output, lines=5)
        assert len(work(output, **changes) or []) == 8
        beside(output, "journal").unlink()


def test_an_input_that_has_grown_goes_on_unless_its_last_line_has(output: Path) -> None:
    work(output, lines=5, text=TEXT[:35])
    assert work(output, lines=7) == LINES[5:7]
    beside(output, "journal").unlink()
    begun = TEXT + b"hel"
    assert work(output, lines=9, text=begun) == [*LINES, b"hel"]
    assert work(output, lines=9, text=begun + b"lo\n") == [*LINES, b"hello\n"]


def test_a_finished_job_is_not_done_again_unless_something_has_changed(output: Path) -> None:
    work(output)
    stamp = output.stat().st_mtime_ns
    assert work(output) is None
    assert output.stat().st_mtime_ns == stamp
    changes: list[dict[str, Any]] = [{"text": TEXT[7:]}, {"job": JOB | {"options": {}}}]
    for change in changes:
        assert work(output, **change) is not None
        work(output)
    output.write_bytes(b"edited by hand")
    assert work(output) == LINES
    output.unlink()
    assert work(output) == LINES
    assert work(output, text=b"") == []
    assert work(output, text=b"") is None


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_job_killed_before_the_renaming_is_finished_by_the_next(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / f"out{suffix}"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nmt.jobs.journal.os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            work(output)
    assert not output.exists()
    assert work(output) is None
    assert content(output) == TEXT.upper()
    assert names(tmp_path) == [f".out{suffix}.journal", f"out{suffix}"]


@pytest.mark.parametrize(("suffix", "partial"), [("", "partial"), (".gz", "compressed.partial")])
def test_text_that_cannot_get_its_name_is_kept(tmp_path: Path, suffix: str, partial: str) -> None:
    output = tmp_path / f"out{suffix}"
    output.mkdir()
    finished = f".out{suffix}.{partial}"
    with pytest.raises(NMTError, match=rf"{re.escape(f'{output}: ')}.*{re.escape(finished)}[, ]"):
        work(output)
    assert (tmp_path / finished).is_file()
    output.rmdir()
    assert work(output) is None  # nothing is left to do but the renaming
    assert content(output) == TEXT.upper()


def test_one_job_at_a_time_is_at_work(output: Path) -> None:
    work(output, lines=2)
    before = {path.name: path.read_bytes() for path in output.parent.iterdir()}
    with Journal(output), pytest.raises(Stopped, match=r"out\.de: "):
        Journal(output)
    assert {path.name: path.read_bytes() for path in output.parent.iterdir()} == before
    assert work(output) == LINES[2:]


@pytest.mark.parametrize("kind", ["journal", "partial"])
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_link_that_was_planted_is_refused_and_not_written_to(
    output: Path, kind: str, link: Callable[[Path, Path], None]
) -> None:
    victim = output.with_name("victim")
    victim.write_text("mine\n")
    link(beside(output, kind), victim)
    with pytest.raises(OSError, match=rf"\.out\.de\.{kind} is a link.*'{output}'"):
        work(output)
    assert victim.read_text() == "mine\n"
    beside(output, kind).unlink(missing_ok=True)  # a job that did nothing left nothing
    assert work(output) == LINES


def test_a_link_in_place_of_the_compressed_output_is_replaced(tmp_path: Path) -> None:
    output, victim = tmp_path / "out.gz", tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / ".out.gz.compressed.partial").symlink_to(victim)
    work(output)
    assert (victim.read_text(), output.is_symlink()) == ("mine\n", False)


def test_a_journal_of_others_is_refused(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work(output)
    status = os.fstat

    def of_another_user(descriptor: int) -> os.stat_result:
        found = list(status(descriptor))
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == ".out.de.journal":
            found[stat.ST_UID] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another_user)
    with pytest.raises(OSError, match=r"\.out\.de\.journal .*user"):
        Journal(output)


def test_behind_a_symbolic_link_the_file_itself_is_replaced(output: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    output.write_text("an earlier one")
    link.symlink_to(output)
    work(link)
    assert link.is_symlink()
    assert content(output) == TEXT.upper()


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_an_output_is_compressed_as_its_name_says(tmp_path: Path, suffix: str) -> None:
    if suffix == ".zst" and compressed.zstd is None:
        pytest.skip("needs the extra zstd")
    output = tmp_path / f"out{suffix}"
    work(output, lines=3)
    assert work(output) == LINES[3:]
    assert work(output) is None
    shutil.copy(output, tmp_path / "before")
    output.unlink()
    work(output)
    assert output.read_bytes() == (tmp_path / "before").read_bytes()


def test_a_process_that_was_started_meanwhile_keeps_no_lock(output: Path) -> None:
    # As forked workers do, which have every open file of the job.
    work(output)
    with Journal(output):
        descriptors = {path: path.resolve().name for path in Path("/proc/self/fd").iterdir()}
        (own,) = (int(path.name) for path, name in descriptors.items() if name == ".out.de.journal")
        other = subprocess.Popen(["sleep", "60"], pass_fds=[own])
    try:
        with Journal(output):  # which raises HeldOff if it is locked
            pass
    finally:
        other.kill()
        other.wait()
