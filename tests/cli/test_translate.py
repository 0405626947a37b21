"""`nmt translate` as a shell sees it: lines, pipes, files, exit statuses."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nmt.cpu import most_workers
from nmt.models.model_file import ModelCard, write_model
from nmt.search.beam_search import decode

Nmt = Callable[..., Any]

QUICK = ["--threads", "1", "--beam-size", "2", "--max-extra-tokens", "3"]


def command(model: Path, *words: str | Path) -> list[str]:
    return [sys.executable, "-m", "nmt", "translate", str(model), *QUICK, *map(str, words)]


def translate(model: Path, data: bytes, *words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(model, *words), input=data, capture_output=True, check=False)


def assert_lines_correspond(data: bytes, translated: bytes) -> None:
    """As many lines, blank where blank, ended alike."""
    assert translated.count(b"\n") == data.count(b"\n")
    assert translated.endswith(b"\n") == data.endswith(b"\n")
    for before, after in zip(data.split(b"\n"), translated.split(b"\n"), strict=True):
        if before != b"\r":  # a last "\r" without its newline is text, blank text at that
            assert after.endswith(b"\r") == before.endswith(b"\r")
        if not before.strip():
            assert not after.strip()
    translated.decode()  # the output is UTF-8 whatever came in


def summary(stderr: bytes) -> dict[str, Any]:
    """Return the summary, which is all that a job without trouble says."""
    found: dict[str, Any] = json.loads(stderr)
    return found


# ------------------------------------------------------------------------- stdin to stdout


def test_stdout_holds_data_alone_and_files_hold_the_same(
    nmt: Nmt, model_file: Path, tmp_path: Path
) -> None:
    data = b"the cat\n\na dog sees the bird\n"
    done = translate(model_file, data)
    assert done.returncode == 0
    counts = summary(done.stderr)
    assert list(counts) == [
        *("lines_in", "lines_out", "split", "failed", "seconds", "tokens_per_second")
    ]
    assert (counts["lines_in"], counts["lines_out"]) == (3, 3)
    assert (counts["split"], counts["failed"]) == (0, 0)
    assert counts["tokens_per_second"] > 0
    assert_lines_correspond(data, done.stdout)
    lines = done.stdout.split(b"\n")
    assert lines[0] and lines[2] and not lines[1]

    (tmp_path / "in").write_bytes(data)
    files = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert nmt("translate", model_file, *files, *QUICK, "--quiet") == (0, "", "")
    assert (tmp_path / "out").read_bytes() == done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.journal", "in", "out"]


def test_any_bytes_give_as_many_lines(model_file: Path) -> None:
    nasty = [
        b"the cat",
        b"",
        b"the dog\r",
        b"\r",
        b"a\rb",
        b"a \xff bird",
        "\u2028 \x85 \x0b\x0c\x1e".encode(),
        b"\0",
        b"\xc3(",
        b"\t",
        "\ufeff".encode(),
        b"x" * 5_000,
        b"bird " * 40,
        "日本語😀".encode(),
    ]
    data = b"\xef\xbb\xbf" + b"\n".join(nasty * 2) + b"\nthe end"
    done = translate(model_file, data, "--pool-lines", "5")
    assert done.returncode == 0
    assert_lines_correspond(data, done.stdout)
    *notices, last = done.stderr.decode().splitlines()
    assert notices == [
        "nmt: warning: stdin: 4 lines are not valid utf-8, the first is line 6; bad bytes "
        "became U+FFFD",
        "nmt: warning: stdin: 4 lines have more than 20 tokens, the first is line 12; long ones "
        "were split into segments",
    ]
    assert summary(last.encode())["split"] == 4


def test_empty_input_gives_empty_output(translate_text: Nmt) -> None:
    answer = translate_text("")
    assert (answer.status, answer.stdout) == (0, "")
    assert summary(answer.stderr.encode())["lines_in"] == 0


def test_lines_are_answered_while_stdin_stays_open(model_file: Path) -> None:
    process = subprocess.Popen(
        command(model_file), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    # Only so that a command that waits for the end of its input does not hang this test.
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    assert process.stdin and process.stdout and process.stderr
    for line in (b"the cat\n", b"a dog\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.stdout.read() == b""
    assert summary(process.stderr.read())["lines_in"] == 2
    assert process.wait() == 0
    watchdog.cancel()


def test_a_reader_that_leaves_early_is_no_failure(model_file: Path) -> None:
    nmt = shlex.join(command(model_file, "--pool-lines", "10"))
    shell = f"set -o pipefail; seq 300 | {nmt} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1


def test_an_output_that_is_no_regular_file_is_written_and_not_replaced(
    model_file: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    done = translate(model_file, b"the cat\n\n", "--output", fifo)
    reader.join(timeout=60)
    assert done.returncode == 0, done.stderr
    assert read[0].count(b"\n") == 2
    assert fifo.is_fifo()


def test_nobody_listening_to_stderr_is_no_failure(model_file: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(model_file), input=b"the cat\n", stdout=subprocess.PIPE, stderr=writing, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1


def test_a_pipe_by_name_is_read_once(model_file: Path) -> None:
    nmt = shlex.join(command(model_file))
    shell = f"{nmt} --input <(printf 'the cat\\na dog\\n')"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 2


def test_batch_and_pool_sizes_do_not_change_the_output(translate_text: Nmt) -> None:
    text = "".join("cat " * (n % 5) + "dog\n" for n in range(20))
    first = translate_text(text)
    assert first.status == 0
    for sizes in (("--batch-tokens", "1"), ("--pool-lines", "3"), ("--batch-tokens", "30")):
        assert translate_text(text, *sizes)[:2] == first[:2]


def test_encodings_and_compression_are_read_and_utf_8_is_written(
    translate_text: Nmt, model_file: Path
) -> None:
    text = "Größe\n\na dog\n"
    plain = translate_text(text)
    assert plain.status == 0
    for raw, words in (
        (text.encode("windows-1252"), ("--encoding", "windows-1252")),
        (gzip.compress(text.encode()), ()),  # recognised by the first bytes
        (text.encode("utf-16"), ()),
    ):
        assert translate_text(raw, *words)[:2] == plain[:2]
    done = translate(model_file, gzip.compress(text.encode("utf-16")))
    assert (done.returncode, done.stdout.decode()) == plain[:2]


# ---------------------------------------------------------------------------------- failures


def test_strict_fails_at_the_first_bad_line_and_leaves_no_output(
    translate_text: Nmt, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("an earlier one\n")
    text = b"fine\nfine\nb\xffd\nfine\n"
    answer = translate_text(text, "--output", tmp_path / "out", "--strict")
    assert (answer.status, answer.stdout) == (1, "")
    assert "in: line 3 is not valid utf-8" in answer.stderr
    assert (tmp_path / "out").read_text() == "an earlier one\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stopped_command_leaves_nothing_under_the_name_of_its_output(
    model_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        command(model_file, "--output", tmp_path / "out"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stderr
    process.stdin.write(b"the cat\n")
    process.stdin.flush()
    while process.poll() is None and not any(p.stat().st_size for p in tmp_path.iterdir()):
        time.sleep(0.05)  # until the first line has been written under a temporary name
    assert not (tmp_path / "out").exists()
    process.send_signal(number)
    stderr = process.stderr.read()
    assert process.wait() == 75
    assert stderr.startswith(b"nmt: warning: stopped; ")
    assert list(tmp_path.iterdir()) == []
    process.stdin.close()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--beam-size", "0"], 2, "--beam-size 0: must be from 1 to 1000"),
        (["--bream-size", "4"], 2, "No such option: --bream-size"),
        (["--n-best", "5"], 2, "--n-best 5: must be from 1 to the beam size 4"),
        (["--n-best", "2", "--scores"], 2, "have a form of their own; for all of them use"),
        (["--format", "json"], 2, "--format json: unknown; did you mean 'jsonl'?"),
        (["--format", "jsonl", "--scores"], 2, "--scores is for text; jsonl has them"),
        (["--threads", "9" * 20], 2, "--threads 99999999999999999999: must be from 1 to 1024"),
        (["--workers", "9" * 20], 2, "must be at most"),
        (["--top-k", "5"], 2, "--top-k, --top-p and --seed are for --sample; add it"),
        (["--sample", "--top-p", "1.5"], 2, "--top-p 1.5: must be above 0 and at most 1"),
        (["--shard", "9/8"], 2, "--shard 9/8: is not I/N, such as 3/8"),
        (["--precision", "fp23"], 2, "--precision fp23: unknown; did you mean 'fp32'?"),
        (["--length-penalty", "inf"], 2, "--length-penalty inf: must be a finite number"),
        (["--input", "/nowhere/text"], 1, "/nowhere/text: No such file or directory"),
        (["--input", "/nowhere/text", "--shard", "1/2"], 1, "text: No such file or directory"),
        (["--input", "/nowhere/text", "--output", "out.gz"], 1, "text: No such file or directory"),
        (["--output", "/nowhere/text"], 2, "/nowhere: no such folder"),
        (["--workers", "two"], 2, "--workers 'two' must be auto or a number from 1"),
        (["--workers", "0"], 2, "--workers '0' must be auto or a number from 1"),
        (["--workers", str(most_workers() + 1)], 2, f"must be at most {most_workers()}; this"),
        (["--deadline", "06:30"], 2, "--deadline needs --input and --output with files"),
        (["--input", "/nowhere/*.en"], 2, "--input /nowhere/*.en: no files found"),
        # Also where there are others.
        (["--input", __file__, "--input", "/nowhere/*"], 2, "--input /nowhere/*: no files found"),
    ],
)
def test_wrong_options_are_one_line_and_a_status(
    nmt: Nmt, model_file: Path, tmp_path: Path, words: list[str], status: int, message: str
) -> None:
    (tmp_path / "in").write_text("the cat\n")
    source = [] if "--input" in words else ["--input", tmp_path / "in"]
    answer = nmt("translate", model_file, *source, *words)
    assert (answer.status, answer.stdout) == (status, "")
    (line,) = answer.stderr.splitlines()
    assert line.startswith("nmt: error: ")
    assert message in line


def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(
    translate_text: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("nmt.files.os.fsync", fail)
    answer = translate_text("the cat\n", "--output", tmp_path / "out.de")
    assert answer.status == 1
    assert f"{tmp_path}/out.de: the disk is full; make room" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


# -------------------------------------------------------------------------------- unattended


def text_of(lines: int) -> bytes:
    """Lines of several lengths, blank and bad ones among them."""
    words = (b"the cat", b"a dog sees", b"\xff", b"x" * 60, b"the old house")
    return b"".join(b"%s %d\n" % (words[n % 5], n) if n % 7 else b"\n" for n in range(lines))


@pytest.mark.parametrize(
    ("kills", "lines"), [(3, 1_500), pytest.param(50, 20_000, marks=pytest.mark.slow)]
)
def test_a_job_that_is_killed_again_and_again_ends_as_undisturbed(
    model_file: Path, tmp_path: Path, kills: int, lines: int
) -> None:
    (tmp_path / "in").write_bytes(text_of(lines))
    (tmp_path / "out").write_text("an earlier one\n")
    words = ("--input", tmp_path / "in", "--pool-lines", "100", "--workers", "2", "--output")
    assert translate(model_file, b"", *words, tmp_path / "undisturbed").returncode == 0
    expected = (tmp_path / "undisturbed").read_bytes()
    journal, random = tmp_path / ".out.journal", Random(1)
    killed = 0
    while killed < kills:
        process = subprocess.Popen(command(model_file, *words, tmp_path / "out"))
        size = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and journal.exists() and journal.stat().st_size == size:
            time.sleep(0.01)  # until it has gone on
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        if process.wait() == 0:
            break  # the last of the work was done before it could be killed
        killed += 1
        assert (tmp_path / "out").read_text() == "an earlier one\n"
    assert killed >= min(kills, 3)
    assert translate(model_file, b"", *words, tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == expected
    assert_lines_correspond(text_of(lines), expected)


def test_a_finished_job_is_not_done_again(translate_text: Nmt, tmp_path: Path) -> None:
    job = ("the cat\na dog\n", "--output", tmp_path / "out")
    assert translate_text(*job).status == 0
    stamp = (tmp_path / "out").stat().st_mtime_ns
    again = translate_text(*job)
    assert again.status == 0
    assert f"{tmp_path}/out: already translated" in again.stderr
    assert json.loads(again.stderr.splitlines()[-1])["lines_in"] == 2
    assert (tmp_path / "out").stat().st_mtime_ns == stamp
    for other in (("--length-penalty", "1"), ("--scores",)):
        assert "already" not in translate_text(*job, *other).stderr


def test_a_lock_that_is_held_leaves_everything_untouched(
    nmt: Nmt, model_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("the cat\n")
    before = sorted(tmp_path.iterdir())
    with (tmp_path / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        words = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--lock", "lock")
        answer = nmt("translate", model_file, *words[:-1], tmp_path / "lock")
    assert (answer.status, answer.stdout) == (75, "")
    assert "lock: another job is working on it" in answer.stderr
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "lock"]
    assert nmt("translate", model_file, *words[:-1], tmp_path / "lock").status == 0


def test_at_its_deadline_a_job_stops_and_goes_on_the_next_time(
    translate_text: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (text_of(3_000), "--pool-lines", "50", "--output")
    assert translate_text(*text, tmp_path / "expected").status == 0
    job = (*text, tmp_path / "out")
    monkeypatch.setattr("nmt.translate.job.seconds_until", lambda *_: 1.0)
    stopped = translate_text(*job, "--deadline", "06:30")
    assert (stopped.status, stopped.stdout) == (75, "")
    assert "--deadline 06:30 reached" in stopped.stderr
    assert not (tmp_path / "out").exists()
    resumed = translate_text(*job)
    assert resumed.status == 0
    assert "continuing after line" in resumed.stderr
    assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize("form", ["folder", "glob", "several"])
def test_many_files_are_translated_to_a_folder(
    nmt: Nmt, model_file: Path, tmp_path: Path, form: str
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.en").write_text("the cat\n\n")
    (source / "b.en.gz").write_bytes(gzip.compress(b"a dog\n"))
    (source / ".hidden").write_text("no\n")
    inputs = {
        "folder": ["--input", source],
        "glob": ["--input", source / "*.en*"],
        "several": ["--input", source / "a.en", "--input", source / "b.en.gz"],
    }[form]
    answer = nmt("translate", model_file, *inputs, "--output", target, *QUICK)
    assert answer.status == 0
    assert [path.name for path in sorted(target.glob("[ab]*"))] == ["a.en", "b.en.gz"]
    assert (target / "a.en").read_bytes().count(b"\n") == 2
    assert gzip.decompress((target / "b.en.gz").read_bytes()).count(b"\n") == 1
    assert summary(answer.stderr.encode())["lines_in"] == 3


def test_files_that_cannot_be_read_do_not_stop_the_others(
    nmt: Nmt, model_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"the cat\n")[:-5])
    (tmp_path / "b").write_text("a dog\n")
    inputs = [word for name in ("missing", "a.gz", "b") for word in ("--input", tmp_path / name)]
    answer = nmt("translate", model_file, *inputs, "--output", tmp_path / "out", *QUICK)
    assert (answer.status, answer.stdout) == (1, "")
    assert "missing: No such file or directory" in answer.stderr
    assert "a.gz: cut short or damaged" in answer.stderr
    assert [path.name for path in (tmp_path / "out").glob("[abm]*")] == ["b"]


def test_a_line_that_fails_is_left_empty_and_the_status_is_1(
    translate_text: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: list[int] = []

    def short_of_memory(model: Any, groups: Any, *arguments: Any, **options: Any) -> Any:
        for group in groups:
            longest.append(max(len(source.ids) for source in group.sources))
            if longest[-1] == longest[0]:  # the long line comes first
                raise MemoryError
            yield from decode(model, iter([group]), *arguments, **options)

    monkeypatch.setattr("nmt.translate.torch_engine.decode", short_of_memory)
    text = "the cat\n\na dog sees the bird\nthe dog\n"
    answer = translate_text(text, "--output", tmp_path / "out")
    assert (answer.status, answer.stdout) == (1, "")
    lines = (tmp_path / "out").read_text().split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]
    assert "in: 1 line could not be translated and are empty, the first is line 3" in answer.stderr
    counts = json.loads(answer.stderr.splitlines()[-1])
    assert (counts["lines_in"], counts["lines_out"], counts["failed"]) == (4, 4, 1)


def test_workers_do_not_change_the_output(model_file: Path) -> None:
    data = text_of(300)
    one, two = (
        translate(model_file, data, "--workers", count, "--pool-lines", "100")
        for count in ("1", "2")
    )
    assert one.returncode == two.returncode == 0
    assert one.stdout == two.stdout
    assert_lines_correspond(data, one.stdout)


# ------------------------------------------------------------------------- what is a new job


SAME = (
    *("--precision fp32", "--batch-tokens 9", "--pool-lines 1", "--workers 1"),
    *("--encoding UTF8", "--length-penalty 0.60", "--shard 1/1"),
)
OTHER = (
    *("--beam-size 3", "--length-penalty 0.7", "--length-penalty-form power", "--max-tokens 9"),
    *("--sample", "--n-best 2", "--scores", "--alignment", "--format jsonl", "--split"),
    *("--prefixes", "--precision int8", "--encoding latin-1", "--strict"),
)


def test_only_options_that_change_the_output_make_a_new_job(
    translate_text: Nmt, tmp_path: Path
) -> None:
    job = ("the cat\n", "--output", tmp_path / "out")
    assert translate_text(*job).status == 0
    for words in SAME:
        assert "already translated" in translate_text(*job, *words.split()).stderr, words
    for words in OTHER:
        answer = translate_text(*job, *words.split())
        assert answer.status == 0, words
        assert "already translated" not in answer.stderr, words


def test_other_models_make_a_new_job(
    nmt: Nmt, model_file: Path, card: ModelCard, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("the cat\n")
    write_model(tmp_path / "other", card, dict(card.build().named_parameters()))
    words = ("--input", tmp_path / "in", "--output", tmp_path / "out", *QUICK)
    for models in ((model_file,), (tmp_path / "other",), (model_file, "--ensemble", model_file)):
        assert "already translated" not in nmt("translate", *models, *words).stderr
        assert "already translated" in nmt("translate", *models, *words).stderr


# ------------------------------------------------------------------------------ odd surroundings


def test_closed_streams_are_reported_if_they_are_needed(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("the cat\n")
    files = f"--input {tmp_path / 'in'} --output {tmp_path / 'out'}"

    def run(rest: str) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.join(command(model_file))} {rest}"
        return subprocess.run(line, shell=True, capture_output=True, text=True, check=False)

    done = run(f"{files} --quiet <&- >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text().count("\n") == 1
    done = run("<&-")
    assert (done.returncode, done.stderr) == (2, "nmt: error: stdin is closed; name an --input\n")
    done = run(f"--input {tmp_path / 'in'} >&-")
    assert done.returncode == 2
    assert "stdout is closed; name an --output" in done.stderr


def test_a_full_stdout_is_named(model_file: Path) -> None:
    line = f"{shlex.join(command(model_file))} > /dev/full"
    done = subprocess.run(line, shell=True, input=b"the cat\n", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"stdout: the disk is full" in done.stderr
